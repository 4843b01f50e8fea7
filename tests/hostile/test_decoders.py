"""Whatever bytes or words they are given, decoders give a value or their own error, and soon."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan import Mulligan
from mulligan.cli.history import seconds_of
from mulligan.contrib.opentelemetry.traces import carrier_of
from mulligan.core.decide import decide, policy_of
from mulligan.core.errors import UNREADABLE, InvalidError, StoreError
from mulligan.core.facts import Facts, QueueSettings, read_settings
from mulligan.core.fetch import parse_policy, policy_text
from mulligan.core.fleets import fleets
from mulligan.core.flow import flow_of
from mulligan.core.job import decode_call, encode
from mulligan.core.outcome import Again, Dead, Done, Failed, Lost, Succeeded
from mulligan.core.page import cursor_number
from mulligan.core.retry import Retry, Trail, read_trail
from mulligan.core.signature import SIGNATURE, Keys, read_keys
from mulligan.core.timing import Cron, Every
from mulligan.server.attempts import is_gated
from mulligan.server.bodies import decode_body
from mulligan.server.problems import Refusal, without_secrets
from mulligan.server.redaction import Redaction, decoded
from mulligan.server.routes import ROUTES
from mulligan.server.tokens import read_tokens
from mulligan.stores import make_store, redact
from mulligan.supervisor.fleet_file import AppFacts, read_fleet
from tests.core.test_decide import claimed

many = settings(deadline=None, max_examples=100)
FIELDS = (
    *("task", "args", "kwargs", "retry", "timeout", "on_dead", "on_dead_queue", "on_dead_retry"),
    *("sink", "flow", "trace", "gated", "refused", "signed", "root", "path", "number", "then"),
    *("key", "members", "gathers", "queue", "region", "priority", "each", "max_retries"),
    *("backoff", "type", "base", "factor", "max", "jitter", "scope", "seconds", "policy", "budget"),
)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["fifo", "weighted", "exponential", "delays", "sessions", "full", "*"])
)
documents = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
GOOD = encode(
    {
        "task": "a",
        "args": [1, "é"],
        "kwargs": {"b": None},
        "retry": Retry(3),
        "timeout": 5.0,
        "flow": {"root": "r", "path": ["a", "b"], "then": [{"task": "b"}]},
        "sink": {"task": "s"},
        "trace": {"traceparent": "00-1-2-01"},
    }
)


def spoiled(at: int, bit: int, cut: int) -> bytes:
    """A good body with a flipped bit, cut off somewhere."""
    body = bytearray(GOOD)
    body[at % len(body)] ^= 1 << bit
    return bytes(body[: cut % (len(body) + 1)])


spoils = st.builds(spoiled, st.integers(0, 999), st.integers(0, 7), st.integers(0, 999))
deeps = st.builds(
    lambda level, kind: b'{"args":' + kind * level + b',"flow":{"root":"r"},"trace":1}',
    st.integers(0, 20_000),
    st.sampled_from([b"[", b'{"a":', b"[{"]),
)
bodies = st.binary(max_size=60) | documents.map(encode) | spoils | deeps


@many
@given(bodies)
def test_a_body_is_read_or_is_one_of_the_unreadable(body):
    with contextlib.suppress(*UNREADABLE):
        decode_call(body)
    policy_of(body)
    flow_of(body)
    is_gated(body)
    carrier_of(body)
    decoded(body)
    assert Keys(["k" * 32]).refusal("j", "t", body) is not None
    SIGNATURE.search(body)


@many
@given(bodies, st.sampled_from([Lost(), Failed("E", "e"), Succeeded(b"[1,2]"), Succeeded(None)]))
def test_any_body_can_be_decided_about(body, result):
    outcome = decide(replace(claimed(), body=body), result, Facts(), 0.5)
    assert isinstance(outcome, Done | Dead | Again)


@many
@given(bodies)
def test_a_reader_sees_any_body_without_secrets(body):
    app = Mulligan("memory://")

    @app.task
    def a(password: str) -> None: ...

    redaction = Redaction((), app.tasks)
    job = _job(body)
    msgspec.json.encode(redaction.job(job).body)
    redaction.text(body.decode("utf-8", "replace"))


def _job(body: bytes) -> Any:
    from mulligan.core.job import Job  # noqa: PLC0415 - beside its one use

    return Job("j", "q", "a", "r", 0, "failed", "r", 0, 0.0, 1, 1, 0, 0, 0, 0.0, body, result=body)


@many
@given(st.text() | documents.map(lambda value: encode(value).decode()))
def test_a_trail_is_read_or_is_none(written):
    trail = read_trail(written)
    assert isinstance(trail, Trail)
    assert read_trail(trail.write()) == trail


@many
@given(bodies)
def test_settings_of_a_queue_are_read_or_the_store_is_refused(written):
    try:
        found = read_settings("mail", written)
    except StoreError as error:
        assert "queue 'mail'" in str(error)  # noqa: PT017 - either may happen
    else:
        assert isinstance(found, QueueSettings)


@many
@given(st.dictionaries(st.text(), bodies, max_size=3))
def test_notes_of_fleets_are_read_or_left_out(notes):
    fleets(notes)


def given_or_refused(read: Callable[[], object]) -> object:
    """What was read; None if it was refused in words."""
    try:
        return read()
    except InvalidError as error:
        assert str(error)  # noqa: PT017 - either may happen
        return None


texts = st.text(max_size=30)


@many
@given(
    texts | st.from_regex(r"(weighted|capped|fifo|balanced)\(?[a-z=0-9.e+-]*\)?", fullmatch=True)
)
def test_a_policy_is_read_or_refused(text):
    policy: Any = given_or_refused(lambda: parse_policy(text))
    assert policy is None or parse_policy(policy_text(policy)) == policy


@many
@given(texts | st.from_regex(r"[0-9.e+-]*(s|m|min|h|d)?", fullmatch=True))
def test_a_span_of_the_command_line_is_read_or_refused(text):
    span: Any = given_or_refused(lambda: seconds_of(text))
    assert span is None or span >= 0


CRON = st.from_regex(r"([*0-9,/L#-]{1,6} ){4}[*0-9,/A-Z#-]{1,6}", fullmatch=True)


@many
@given(texts | CRON, st.sampled_from(["UTC", "Europe/Paris", "../etc/passwd", "/etc/passwd", ""]))
def test_a_cron_line_is_read_or_refused(text, zone):
    cron: Any = given_or_refused(lambda: Cron(text, zone))
    if cron is not None:
        assert cron.after(1e9) > 1e9


@many
@given(st.integers() | st.floats() | texts | st.none() | st.timedeltas())
def test_a_period_is_read_or_refused(value):
    given_or_refused(lambda: Every(value))


SCHEMES = st.sampled_from(
    ["redis", "rediss", "unix", "postgresql", "postgres", "mongodb", "sqlite", "memory", "http", ""]
)
URLS = st.builds(
    lambda scheme, rest: f"{scheme}://{rest}",
    SCHEMES,
    texts | st.from_regex(r"[a-z:@\[\]0-9%]{0,15}/[a-z0-9]{0,5}\?[a-z_=&%0-9]{0,20}"),
)


@many
@given(texts | URLS)
def test_a_url_names_a_store_or_is_refused(url):
    given_or_refused(lambda: make_store(url))
    redact(url)


@many
@given(st.text(min_size=1), SCHEMES)
def test_no_password_of_a_url_is_shown(secret, scheme):
    assert redact(f"{scheme}://me:{secret}@host/db") == f"{scheme}://me:***@host/db"


# What drivers put between other words, so that the first space ends it.
words = st.text(st.characters().filter(lambda each: not each.isspace()), min_size=1)


@many
@given(words, SCHEMES)
def test_no_password_in_the_words_of_a_driver_is_shown(secret, scheme):
    def said(password: str) -> str:
        return f"{scheme}://me:{password}@host/db: refused (password={password} user=me)"

    assert without_secrets(OSError(said(secret))) == said("***")


@many
@given(st.text())
def test_no_password_that_a_driver_quotes_is_shown(secret):
    quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
    said = without_secrets(OSError(f"refused: password='{quoted}' user=me"))
    assert said == "refused: password=*** user=me"


@many
@given(texts)
def test_a_cursor_is_a_place_or_is_refused(cursor):
    given_or_refused(lambda: cursor_number(cursor))


async def test_a_store_reads_a_cursor_or_refuses_it(store):
    from mulligan.core.page import Selection  # noqa: PLC0415 - beside its one use

    for cursor in (
        "",
        "x",
        "-1",
        "1.5",
        "\u0661",
        "9" * 5000,
        "1e9",
        " 1",
        "$gt",
        "a\tb",
        "\u2028",
        "0x1",
    ):
        with contextlib.suppress(InvalidError):
            page = await store.page(Selection(), 10, cursor)
            assert page.jobs == []


@many
@given(texts)
def test_keys_are_read_or_refused(text):
    keys = read_keys(text)
    given_or_refused(lambda: Keys(keys))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("files")
    return made


@many
@given(
    data=st.binary(max_size=80) | texts.map(lambda text: f"read {text}".encode("utf-8", "replace"))
)
def test_a_token_file_is_read_or_refused(folder, data):
    path = folder / "tokens"
    path.write_bytes(data)
    path.chmod(0o600)
    given_or_refused(lambda: read_tokens(path))


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            pairs = (f"{encode(str(key)).decode()} = {toml(each)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        case None:
            return '""'
        case str():
            return encode(value).decode()
        case _:
            return repr(value)


FLEET_KEYS = (
    *("name", "state", "store", "kinds", "app", "queues", "region", "min", "max", "concurrency"),
    *("max_concurrent", "max_runtime", "cooldown", "env", "command", "only", "service", "memory"),
)
fleet_tables = st.dictionaries(st.sampled_from(FLEET_KEYS), documents, max_size=5)


@many
@given(texts | st.builds(lambda a, b, c: f"[fleet]\n{a}\n[kinds.w]\n{b}\n{c}", texts, texts, texts))
def test_a_fleet_file_of_any_text_is_read_or_refused(text):
    refused_with_its_line(text)


@many
@given(fleet_tables, fleet_tables, fleet_tables)
def test_a_fleet_file_of_any_values_is_read_or_refused(fleet, kind, work):
    parts = [("fleet", fleet), ("kinds.w", kind), ("w", work)]
    text = "".join(
        f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
        for name, table in parts
    )
    refused_with_its_line(text)


def refused_with_its_line(text: str) -> None:
    try:
        read_fleet(Path("fleet.toml"), text, lambda *_: AppFacts("sqlite:///x.db", ("q",), 1))
    except InvalidError as error:
        assert re.match(r"fleet\.toml(:\d+)?: ", str(error))  # noqa: PT017 - either may happen


BODIES = [pytest.param(row, id=f"{row.method} {row.path}") for row in ROUTES if row.writes]


@pytest.mark.parametrize("row", BODIES)
def test_a_request_body_is_read_or_refused(row):
    decoder = msgspec.json.Decoder(row.body)

    @settings(deadline=None, max_examples=40)
    @given(bodies)
    def read(body: bytes) -> None:
        with contextlib.suppress(Refusal, InvalidError):
            decode_body(decoder, body)

    read()

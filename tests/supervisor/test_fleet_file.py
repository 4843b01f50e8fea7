"""Fleet files that make no sense are refused, with the line and what to do."""

from pathlib import Path

import pytest

from mulligan.core.errors import InvalidError
from mulligan.supervisor.fleet import Fleet, Kind
from mulligan.supervisor.fleet_file import AppFacts, load_fleet, read_fleet

GOOD = """\
name = "answers"
every = 2
orphan_grace = 30
[kinds.questions]
app = "shop:app"
queues = ["questions", "mail"]
region = "EU"
concurrency = 20
only = "fresh"
min = 1
max_concurrent = 8
max_runtime = 7200
cooldown = 5
idle_exit = 120
memory_limit = "512 MiB"
drain_timeout = 60
env = {LANG = "C"}
[kinds.delayed]
service = true
app = "shop:app"
"""


def describe(app: str, env: object) -> AppFacts:
    """What the app of these tests says."""
    if app != "shop:app":
        raise InvalidError(f"app {app!r} cannot be imported")
    return AppFacts("sqlite:///shop.db", ("default", "mail"), 100)


def read(text: str) -> Fleet:
    return read_fleet(Path("x/fleet.toml"), text, describe)


def test_every_key_is_read():
    fleet = read(GOOD)
    assert (fleet.name, fleet.every, fleet.orphan_grace) == ("answers", 2, 30)
    assert fleet.state == Path("x/.mulligan/fleet").absolute()
    assert fleet.kinds["questions"] == Kind(
        "questions", app="shop:app", store="sqlite:///shop.db", queues=("questions", "mail"),
        serves=("questions", "mail"), region="EU", concurrency=20, slots=20, only="fresh", min=1,
        max_concurrent=8, max_runtime=7200, cooldown=5, idle_exit=120, memory_limit=512 << 20,
        drain_timeout=60, env={"LANG": "C"},
    )  # fmt: skip


def test_the_delayed_queue_service_is_one_for_an_hour_a_minute_apart():
    delayed = read(GOOD).kinds["delayed"]
    assert delayed.service
    assert (delayed.min, delayed.max_concurrent) == (1, 1)
    assert (delayed.max_runtime, delayed.cooldown) == (3600, 60)


def test_what_the_file_does_not_say_the_app_does():
    kind = read('[kinds.a]\napp = "shop:app"').kinds["a"]
    assert kind.serves == ("default", "mail")
    assert kind.slots == 100
    assert kind.store == "sqlite:///shop.db"
    assert (kind.min, kind.max_concurrent, kind.max_runtime) == (1, 1, None)


def test_a_kind_may_be_any_command():
    kind = read('[kinds.a]\ncommand = ["cat", "-"]\nmin = 3').kinds["a"]
    assert (kind.command, kind.store, kind.max_concurrent) == (("cat", "-"), "", 3)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("every = 2", "evry = 2", 2, "unknown key 'evry'; did you mean every?"),
        ("every = 2", "every = 0", 2, "every 0 must be above 0"),
        ('name = "answers"', 'name = ""', 1, "has 0 characters"),
        ("[kinds.questions]", '[kinds."a b"]', 4, "kind 'a b' must be 1 to 64 letters"),
        ('app = "shop:app"\nq', "q", 4, "kind 'questions' has no app; add app ="),
        ('app = "shop:app"\nq', 'app = "x:y"\nq', 5, "app 'x:y' cannot be imported"),
        ('app = "shop:app"\nq', "app = 3\nq", 5, "app 3 must be text"),
        ('["questions", "mail"]', '"questions"', 6, "must be a list"),
        ('["questions", "mail"]', "[3]", 6, "queues 3 must be text"),
        ('["questions", "mail"]', '[""]', 6, "has 0 characters"),
        ('region = "EU"', 'region = "*"', 7, "must not begin with '*'"),
        ("concurrency = 20", "concurrency = 0", 8, "must be between 1"),
        ('only = "fresh"', 'only = "old"', 9, "only 'old' is not one of retries, fresh"),
        ("min = 1", "min = 9", 10, "min 9 must not be more than max_concurrent 8"),
        ("min = 1", "min = 1.5", 10, "must be a whole number"),
        ("max_concurrent = 8", "max_concurent = 8", 11, "did you mean max_concurrent?"),
        ("max_runtime = 7200", "max_runtime = 0", 12, "max_runtime 0 must be above 0"),
        ("cooldown = 5", 'cooldown = "5s"', 13, "must be a number"),
        ('"512 MiB"', '"half"', 15, "memory_limit 'half' must be a number of bytes"),
        ('"512 MiB"', "0", 15, "memory_limit 0 must be a number of bytes"),
        ("drain_timeout = 60", "backoff = 9\nbackoff_max = 3", 17, "must be at least 9"),
        ('{LANG = "C"}', "{N = 3}", 17, "N 3 must be text"),
        ("service = true", "service = 1", 19, "must be true or false"),
        ("service = true", "service = true\nmin = 1", 20, "is a service, of which one runs"),
        ("service = true", "service = true\nmax_concurrent = 2", 20, "between 1 and 1"),
        ("service = true", 'command = ["a"]', 19, "has an app and a command"),
        ("[kinds.delayed]", "[kinds.questions]", 18, "this is not TOML: Cannot declare"),
        ("min = 1", "min = ", 10, "this is not TOML"),
        ("min = 1", 'store = "memory://"', 10, "seen by one process alone"),
        ("min = 1", 'store = "ftp://x"', 10, "does not begin with one of"),
        ("min = 1", 'store = "redis://[x"', 10, "is not a URL"),
    ],
)
def test_a_mistake_is_told_with_its_line(old, new, line, said):
    assert old in GOOD
    with pytest.raises(InvalidError) as refused:
        read(GOOD.replace(old, new, 1))
    message = str(refused.value)
    assert message.startswith(f"x/fleet.toml:{line}: "), message
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the fleet has no kind of worker"),
        ("kinds = 3", "must be a table"),
        ("[kinds.a]\ncommand = []", "command of kind 'a' is empty"),
        ('[kinds.a]\ncommand = ["x"]\nregion = "EU"', "has a command of its own; say region in it"),
        ('[kinds.a]\ncommand = ["x"]\nstore = "sqlite:///x.db"', "needs its queues"),
        ("[kinds.a]\nservice = true", "kind 'a' has no app"),
    ],
)
def test_what_lacks_something_is_told_so(text, said):
    with pytest.raises(InvalidError, match=said):
        read(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ('"1000"', 1000), ('"2K"', 2048), ('"1.5 GiB"', 3 << 29), ('"7mb"', 7 << 20)],
)
def test_sizes_are_bytes_or_words(text, size):
    kind = read(f'[kinds.a]\napp = "shop:app"\nmemory_limit = {text}').kinds["a"]
    assert kind.memory_limit == size


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(InvalidError, match=r"fleet\.toml cannot be read: No such file"):
        load_fleet(tmp_path / "fleet.toml", describe)
    (tmp_path / "fleet.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidError, match=r"fleet\.toml cannot be read"):
        load_fleet(tmp_path / "fleet.toml", describe)

"""Text without its secrets, in a time that grows with its length and no faster."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.redaction import Redactor

redactor = Redactor(["pin", ""])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'password': 'hunter2', 'user': 'me'}", "{'password': ***, 'user': 'me'}"),
        ('{"password": "hunter2", "user": "me"}', '{"password": ***, "user": "me"}'),
        ('{"password":"hunter2"}', '{"password":***}'),
        ("password: hunter2 of me", "password: *** of me"),
        ("password=hunter2&user=me", "password=***&user=me"),
        ("password = hunter2, user = me", "password = ***, user = me"),
        ("{password: hunter2}", "{password: ***}"),
        ("PASSWORD:\n  hunter2\nuser: me", "PASSWORD:\n  ***\nuser: me"),
        ("Authorization: Bearer hunter2\nHost: me", "Authorization: ***\nHost: me"),
        ("authorization=Basic hunter2", "authorization=***"),
        ("Set-Cookie: a=hunter2; b=hunter2\r\nHost: me", "Set-Cookie: ***\nHost: me"),
        ("{'Cookie': 'a=1; b=hunter2', 'user': 'me'}", "{'Cookie': ***, 'user': 'me'}"),
        ("passphrase: correct horse hunter2", "passphrase: ***"),
        ("sent Bearer hunter2 to me", "sent Bearer *** to me"),
        ("('x-api-key', 'hunter2'), ('user', 'me')", "('x-api-key', ***), ('user', 'me')"),
        ("environ['SECRET'] = 'hunter2'", "environ['SECRET'] = ***"),
        ("token=b'hunter2 hunter2' user=me", "token=*** user=me"),
        ("token=SecretStr('hunter2, hunter2'), user=me", "token=***, user=me"),
        ('"token": {"a": ["hunter2", "]}"]}, "user": "me"', '"token": ***, "user": "me"'),
        (r'"{\"token\": \"hunter2\", \"user\": \"me\"}"', r'"{\"token\": ***, \"user\": \"me\"}"'),
        (r'{"token": "\"hunter2\"", "user": "me"}', '{"token": ***, "user": "me"}'),
        ('cut off: {"password": "hunter2', 'cut off: {"password": ***'),
        ("access_token_of_me -> hunter2", "access_token_of_me -> ***"),
        ("pin: hunter2", "pin: ***"),
        ("redis://me:hunter2@host/0 is away", "redis://me:***@host/0 is away"),
        ("redis://:hunter2@hunter2@host/0", "redis://:***@host/0"),
        ("two: a://b:hunter2@c\nd://e:hunter2@f", "two: a://b:***@c\nd://e:***@f"),
    ],
)
def test_a_secret_is_hidden_however_it_is_said(text, shown):
    assert redactor.text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the password is missing",
        "password=",
        "password=&user=me",
        "a bearer, of news",
        "http://host:80/path and me@example.org",
        "http://me@host/path",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redactor.text(text) == text


@given(st.text(st.sampled_from("""token=:'"\\[]{}, \nx@/bearer""")))
def test_what_was_hidden_once_stays_as_it_is(text):
    once = redactor.text(text)
    assert redactor.text(once) == once


PIECES = [
    "://:", "://a:", "://", "@", "://a:@", "password", "password ", "password=", "password='",
    'password="', "password: '\\'", "password='\\\\'", '"password": "\\"', "password:[",
    "password\\", 'password\\"', "token:{'", "token: x ", "token=,", "cookie: a ", "cookie: a;",
    "cookie: 'a';", "bearer ", "bearer  x", "bearer", "'", '"', "\\", '\\"', "\\'", "[", "]", "([{",
    " ", "\t\n", "a", "-", "=", ":", ",", "a=", "pin", "x\\\\\\'", "passwx",
]  # fmt: skip
STARTS = ["", "password: ", "token=", "token='", 'token="', "cookie: ", "a://b:", "bearer", "pin"]
SIZE = 4_000


def seconds(shown, text):
    """How long the processor is busy with it, at best."""
    times = []
    for _ in range(2):
        began = thread_time()
        shown(text)
        times.append(thread_time() - began)
    return min(times)


def grows_with_its_length(shown, piece):
    """Where it grew with the square, four times the text would take sixteen times as long."""
    for start in STARTS:
        short, long = (start + piece * (size // len(piece)) for size in (SIZE, 4 * SIZE))
        assert seconds(shown, long) < 10 * seconds(shown, short) + 0.005, (start, piece)


@pytest.mark.parametrize("piece", PIECES)
def test_four_times_the_text_takes_about_four_times_as_long(piece):
    grows_with_its_length(redactor.text, piece)


def test_names_are_secret_by_any_part_of_them():
    assert redactor.is_secret("MY_API_KEY_2")
    assert redactor.is_secret("pin")
    assert not redactor.is_secret("user")

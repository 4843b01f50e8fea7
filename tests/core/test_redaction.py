"""Text without its secrets, in a time that grows with its length and no faster."""

import re
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.errors import InvalidError
from mulligan.core.redaction import Redactor, check_redact

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
        ("password != hunter2", "password != ***"),
        ("password == hunter2", "password == ***"),
        ("get_password()='hunter2'", "get_password()=***"),
        ("db.password.value=hunter2", "db.password.value=***"),
        ("password(s): hunter2", "password(s): ***"),
        ("password # hunter2", "password # ***"),
        ("mysql --password hunter2 db", "mysql --password *** db"),
        ("['mysql', '--password', 'hunter2']", "['mysql', '--password', ***]"),
        ("mysql -phunter2 db", "mysql -p*** db"),
        ("curl -u me:hunter2 http://h", "curl -u me:*** http://h"),
        ("password=a,hunter2 b", "password=*** b"),
        ("password=a&hunter2", "password=***"),
        ("password=a)hunter2", "password=***"),
        ("password=`a hunter2`", "password=***"),
        ("password=\u201ca hunter2\u201d", "password=***"),
        ("password\uff1ahunter2", "password\uff1a***"),
        ("p\u0430ssword=hunter2", "p\u0430ssword=***"),
        ("pass\u200bword=hunter2", "password=***"),
        ("password\U0001f511=hunter2", "password\U0001f511=***"),
        ("Incorrect API key provided: hunter2", "Incorrect API key provided: ***"),
        ("the password 'hunter2' is wrong", "the password *** is wrong"),
        ("password is hunter2", "password is ***"),
        ("invalid password hunter2 for user me", "invalid password *** for user me"),
        ("ALTER USER me PASSWORD 'hunter2'", "ALTER USER me PASSWORD ***"),
        ("IDENTIFIED BY 'hunter2'", "IDENTIFIED BY ***"),
        ("AUTH me hunter2", "AUTH ***"),
        ("h:5432:db:me:hunter2", "h:5432:db:me:***"),
        ('{"name": "password", "value": "hunter2"}', '{"name": "password", "value": ***}'),
        ("<password>hunter2</password>", "<password>***"),
        ("password: |\n  hunter2\nuser: me", "password: |\n  ***\nuser: me"),
        ("X-Auth-Token: Basic hunter2", "X-Auth-Token: ***"),
        ("pass%77ord=hunter2&a=1", "pass%77ord=***&a=1"),
        ("next=%2Fx%3Ftoken%3Dhunter2", "next=%2Fx%3Ftoken%3D***"),
        ("auth=('me', 'hunter2')", "auth=***"),
        ("otp=hunter2 pw=hunter2 sig=hunter2", "otp=*** pw=*** sig=***"),
        ("session_id=hunter2, jwt=hunter2", "session_id=***, jwt=***"),
        ("got eyJhbGciOi.eyJzdWIi.c2ln here", "got *** here"),
        ("SecretStr('hunter2')", "SecretStr(***)"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
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
        "the password is not set",
        "author: me, passed: 3, compass: north",
        "mulligan -p 8080 and id -u me",
        "the job of user me at 10:20:30",
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
    "--password ", "password.a", "password(", "password is ", "password is the ", "password '",
    "pass ", "pass=", "AUTH a ", " -pmysql", "curl -u a", " -u a:", "a:1:b:c:", "a:1:b:c:d\n",
    "-----BEGIN PRIVATE KEY-----", "eyJaaaaa.b.", "Secret(", "SecretStr(", "IDENTIFIED BY '",
    "passw for user ", "%77", "a%77=", "password=a,b", "password=a,b=", "token: basic ", "\u200b",
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
    assert all(map(redactor.is_secret, ("pass", "db_auth", "sessionId", "pass\u200bword")))
    assert not any(map(redactor.is_secret, ("author", "compass", "passed", "signal")))
    assert not redactor.is_secret("user")


def test_what_an_app_says_is_secret_too():
    mine = Redactor(["ssn", re.compile(r"\b\d{3}-\d{2}-\d{4}\b")])
    assert mine.text("my_ssn: 5 and 123-45-6789 of me") == "my_ssn: *** and *** of me"
    assert mine.is_secret("my_ssn")
    assert check_redact(["ssn"]) == ("ssn",)


@pytest.mark.parametrize("given", ["ssn", 5, [5], [re.compile(b"x")], [None]], ids=repr)
def test_what_is_no_list_of_words_and_patterns_is_refused(given):
    with pytest.raises(InvalidError, match="redact"):
        check_redact(given)

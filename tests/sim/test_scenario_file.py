"""Scenarios that make no sense are refused, with the line and what to do."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Capped, Weighted
from mulligan.core.retry import Adaptive, Delays, Exponential, Sessions
from mulligan.sim import builtin_titles, load_scenario, read_scenario, with_policy
from mulligan.tables import lines_of

GOOD = """\
seed = 1
[retry]
max_retries = 3
jitter = "none"
[fetch]
policy = "retry-first"
[regions.US]
workers = 1
outage = [[0, 120]]
[[jobs]]
id = "a"
region = "US"
duration = 30
fail = [1]
[[streams]]
region = "US"
rate = 5
until = 10
duration = {dist = "exponential", mean = 2}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("seed = 1", "sede = 1", 1, "unknown key 'sede'; did you mean seed?"),
        ("seed = 1", "seed = -1", 1, "seed -1 must be"),
        ("seed = 1", "hold_through_backoff = 1", 1, "must be true or false"),
        ("seed = 1", "until = 0", 1, "until 0 must be above 0"),
        ("max_retries = 3", "max_retry = 3", 3, "did you mean max_retries?"),
        ("max_retries = 3", 'max_retries = "many"', 3, "must be a whole number"),
        ('jitter = "none"', 'jitter = "some"', 4, "jitter 'some' is not one of"),
        ('jitter = "none"', "within = [1]", 4, "within"),
        ('jitter = "none"', "base = 90", 4, "max 60 must be at least base 90"),
        ('jitter = "none"', 'scope = "moon"', 4, "scope 'moon'"),
        ('jitter = "none"', "delays = []", 4, "delays has 0 entries"),
        ('jitter = "none"', "on = 5", 4, "on has 5, which is no exception class"),
        ('jitter = "none"', 'never = ["", "E"]', 4, "never '' must have 1 to 200 characters"),
        ('"retry-first"', '"best"', 6, "fetch policy 'best' is not one of"),
        ('policy = "retry-first"', 'policy = "weighted"\nretry = 2', 7, "retry share 2"),
        ('policy = "retry-first"', 'policy = "capped"\ncap = 0', 7, "cap 0 must be"),
        ("[fetch]", "[budget]\nlimit = 0\n[fetch]", 6, "limit 0 must be"),
        ("[fetch]", "[budget]\nlimit = 'x'\n[fetch]", 6, "limit 'x' must be a whole number"),
        ('"retry-first"', '"fifo"\n[budget]\nlimit = 3', 6, "fifo has none"),
        ("[regions.US]", '[regions."*"]', 7, "must not begin with '*'"),
        ("workers = 1", "workers = 0", 8, "workers 0 must be between 1"),
        ("workers = 1", "workers = 1.5", 8, "must be a whole number"),
        ("workers = 1", "failure_rate = 1.5", 8, "at most 1"),
        ("[fetch]", "[limits.a]\nper = 5\n[fetch]", 5, "a limit needs concurrency=, rate="),
        ("[fetch]", "[limits.a]\nrate = 0\n[fetch]", 6, "rate 0 must be"),
        ("[fetch]", "[limits.a]\nspeed = 1\n[fetch]", 6, "unknown key 'speed'"),
        ("[fetch]", "[limits.'a*b']\nrate = 1\n[fetch]", 5, "only as its last character"),
        ("[fetch]", "[providers.p]\nper = 5\n[fetch]", 5, "has no rate"),
        ("[fetch]", "[weights]\nacme = 5000\n[fetch]", 5, "weight 5000.0 of fairness key"),
        (
            "fail = [1]",
            "limits = {a = 6}\n[limits.a]\nrate = 5",
            14,
            "cost 6 of limit 'a' could nev",
        ),
        ("fail = [1]", 'limits = "openai"', 14, "limit 'openai' is not declared; add [limits"),
        ("fail = [1]", "limits = 5", 14, "limits 5 must be a name, a list of names, or costs"),
        ("fail = [1]", "limits = [[1]]", 14, "limits [[1]] must be a name"),
        ("fail = [1]", "limits = {a = 0}", 14, "cost 0 of limit 'a' must be a whole number"),
        ("fail = [1]", 'fairness_key = ""', 14, "fairness_key '' has 0 characters"),
        ("fail = [1]", 'provider = "p"', 14, "provider 'p' is not one of none"),
        ("[[0, 120]]", "[[120, 0]]", 9, "must be [begin, end]"),
        ("[[0, 120]]", "[5]", 9, "must be [begin, end]"),
        ("[[0, 120]]", "5", 9, "must be a list"),
        ('id = "a"\n', "", 10, "[jobs] has no id; add one"),
        ('id = "a"', "id = 3", 11, "id 3 must be text"),
        ('id = "a"', 'id = ""', 11, "has 0 characters"),
        ('id = "a"', 'id = "s1"', 15, "id 's1' is given twice"),
        ('region = "US"\nduration', 'region = "MARS"\nduration', 12, "'MARS' is not one of US"),
        ("duration = 30", "duration = -3", 13, "duration -3 must be at least 0"),
        ("duration = 30", 'duration = "long"', 13, "must be a number"),
        ("duration = 30", "duration = true", 13, "must be a number"),
        ("duration = 30", "", 10, "[jobs] has no duration"),
        ("fail = [1]", "fail = [0]", 14, "fail 0 is not the number of an attempt"),
        ("fail = [1]", "error = 5", 14, "error 5 must be text"),
        ("fail = [1]", 'error = ""', 14, "error '' must have 1 to 200 characters"),
        ("workers = 1", "error = []", 8, "error [] must be text"),
        ("fail = [1]", "crash = [1.5]", 14, "crash 1.5 is not the number"),
        ("fail = [1]", 'priority = "high"', 14, "priority 'high' is not one of"),
        ("fail = [1]", "retry = {base = 1, tries = 3}", 14, "unknown key 'tries'"),
        ("fail = [1]", "retry = 3", 14, "must be a table"),
        ("rate = 5", "rate = 0", 17, "rate 0 must be above 0"),
        ("until = 10", "from = 20\nuntil = 10", 19, "until 10 must be above 20"),
        ('"exponential"', '"normal"', 19, "dist 'normal' is not one of exponential"),
        ("mean = 2", "mean = 0", 19, "mean 0 must be above 0"),
        ("mean = 2", "sigma = 2", 19, "unknown key 'sigma'"),
        ('id = "a"', 'id = "s1-7"', 11, "id 's1-7' is also made from 's1'"),
        ("[fetch]", "[budget]\nlimit = 3\nratio = 0.2\n[fetch]", 5, "give exactly one"),
        ("rate = 5", "rate = 5e6", 1, "jobs, more than"),
        ("[[streams]]", "[streams]", 15, "must be a list"),
        ("max_retries = 3", "max_retries = ", 3, "this is not TOML"),
    ],
)
def test_a_mistake_is_told_with_its_line(old, new, line, said):
    assert old in GOOD
    with pytest.raises(InvalidError) as refused:
        read_scenario("x.toml", GOOD.replace(old, new, 1))
    message = str(refused.value)
    assert message.startswith(f"x.toml:{line}: "), message
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no region"),
        ("[regions.US]", "no jobs"),
        ("regions = 3", "must be a table"),
        ('x = """', "this is not TOML"),
        ("jobs = [1]\n[regions.US]", "must be a list of tables"),
    ],
)
def test_a_scenario_that_lacks_everything(text, said):
    with pytest.raises(InvalidError, match=r"^x\.toml:1: .*" + said):
        read_scenario("x.toml", text)


def test_lines_are_found_past_lists_strings_and_nested_tables():
    text = (
        'a = [\n  1, # ]\n  2,\n]\n"b c" = "[x]"\n[[jobs]]\nid = 1\n[[jobs]]\n'
        "[jobs.retry]\nbase = 1\n[x.'y.z']\nd.e = 2\n"
    )
    lines = lines_of(text)
    assert lines["a",] == 1
    assert lines["b c",] == 5
    assert lines["jobs", 0, "id"] == 7
    assert lines["jobs", 1, "retry", "base"] == 10
    assert lines["x", "y.z", "d", "e"] == 12


def backoff(said: str):
    return read_scenario("x", GOOD.replace('jitter = "none"', said)).jobs[0].retry.backoff


def test_every_backoff_can_be_said():
    assert backoff('base = 1\njitter = "full"') == Exponential(1, jitter="full")
    assert backoff("attempts = 2\nwithin = [1]\nbase = 10") == Sessions(2, (1,), 10)
    assert backoff("per = 5\nbase = 1") == Adaptive(1, per=5)
    assert backoff("delays = [1, 2]") == Delays((1, 2))


def test_a_job_may_have_a_policy_of_its_own():
    text = GOOD.replace("fail = [1]", "retry = {max_retries = 9, delays = [1]}")
    scenario = read_scenario("x", text)
    assert scenario.jobs[0].retry.max_retries == 9
    assert scenario.streams[0].retry.max_retries == 3


def test_retries_may_be_unlimited_when_asked_for():
    text = GOOD.replace("max_retries = 3", 'max_retries = "unlimited"')
    assert read_scenario("x", text).jobs[0].retry.max_retries is None


def test_policies_without_numbers_have_those_of_the_scenario():
    scenario = read_scenario("x", GOOD)
    assert with_policy(scenario, "weighted").queue.policy == Weighted(0.2)
    assert with_policy(scenario, "capped").queue.policy == Capped(4)
    own = read_scenario("x", GOOD.replace('"retry-first"', '"weighted"\nretry = 0.3'))
    assert with_policy(own, "weighted").queue.policy == Weighted(0.3)
    assert with_policy(own, "capped(2)").queue.policy == Capped(2)


def test_every_builtin_scenario_can_be_read_and_says_what_it_is():
    for name, title in builtin_titles().items():
        assert load_scenario(name).title == title

"""`mulligan limits` and `mulligan fairness`, as an operator types them."""

import pytest

from mulligan.core.facts import QueueSettings
from mulligan.core.limits import Limit, costs_text
from tests.cli.command_line import APP, claim, do, good, good_json, new_job, refused, run


@pytest.fixture(autouse=True)
def store(monkeypatch):
    """The store in memory of the app, with two limits and a family."""
    from mulligan.stores.memory import MemoryStore  # noqa: PLC0415 - a new one for each test
    from tests.cli import apps  # noqa: PLC0415

    made = MemoryStore()
    do(made, lambda s: s.set_limit("openai", Limit(rate=60, per=60), declared=True))
    do(made, lambda s: s.set_limit("disk", Limit(concurrency=1), declared=True))
    do(made, lambda s: s.set_limit("tenant:*", Limit(concurrency=2), declared=True))
    monkeypatch.setattr(apps.app, "_memory", made)
    return made


def limited(name, limit, **fields):
    """A job that names the limit."""
    return new_job(name, limits=costs_text({limit: 1}), **fields)


def by_name():
    """What `limits list` gives, by name."""
    return {each["name"]: each for each in good_json("limits", "list", APP)["limits"]}


def test_limits_are_listed_with_who_runs_and_who_waits(store):
    do(store, lambda s: s.enqueue([limited(f"j{n}", "disk") for n in range(3)]))
    do(store, lambda s: s.enqueue([limited("t", "tenant:acme")]))
    do(store, lambda s: claim(s, 4))
    seen = by_name()
    assert list(seen) == ["disk", "openai", "tenant:*", "tenant:acme"]
    assert (seen["disk"]["running"], seen["disk"]["waiting"]) == (1, 2)
    assert seen["disk"]["room_at"] is None
    assert seen["tenant:acme"]["in_force"] == {"concurrency": 2}
    shown = good("limits", "list", APP)
    assert "60 per 60 s" in shown
    assert "when one ends" in shown
    assert "its family" in shown


def test_what_is_set_holds_until_it_is_reset_and_keeps_the_rest():
    said = good("limits", "set", "openai", "--rate", "30", "--app", APP)
    assert said.strip() == "openai: set; 30 per 60 s"
    good("limits", "set", "openai", "--concurrency", "4", "--app", APP)
    seen = by_name()["openai"]
    assert seen["in_force"] == {"concurrency": 4, "rate": 30, "per": 60.0}
    assert seen["stored"]["declared"] == {"rate": 60, "per": 60}
    good("limits", "set", "openai", "--no-rate", "--app", APP)
    assert by_name()["openai"]["in_force"] == {"concurrency": 4, "per": 60.0}
    assert "openai: reset; 60 per 60 s" in good("limits", "reset", "openai", "--app", APP)
    assert "openai: was not set; 60 per" in good("limits", "reset", "openai", "--app", APP)


def test_one_name_of_a_family_may_be_set(store):
    good("limits", "set", "tenant:acme", "--concurrency", "9", "--app", APP)
    assert by_name()["tenant:acme"]["in_force"] == {"concurrency": 9}
    assert good_json("limits", "reset", "tenant:acme", "--app", APP)["in_force"] == {
        "concurrency": 2
    }
    assert "tenant:acme" not in by_name()
    assert do(store, lambda s: s.limits(10))


def test_a_limit_that_no_app_declares_is_set_with_a_note():
    result = run("limits", "set", "opnai", "--rate", "5", "--app", APP)
    assert result.exit_code == 0
    assert "note: limit 'opnai' is declared by no app so far" in result.stderr
    assert "opnai: reset; no limit any more" in good("limits", "reset", "opnai", "--app", APP)


def test_a_limit_is_paused_and_resumed():
    assert "openai: paused for 20 s" in good("limits", "pause", "openai", "20", "--app", APP)
    assert by_name()["openai"]["paused_until"] is not None
    assert "paused for" in good("limits", "list", APP)
    assert good_json("limits", "resume", "openai", "--app", APP)["paused_until"] is None
    assert "openai: was not paused" in good("limits", "resume", "openai", "--app", APP)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "openai"), "limit 'openai': nothing is to change; give a rate or concurrency"),
        (("set", "openai", "--rate", "0"), "rate 0 of a limit must be a whole number from 1"),
        (("set", "openai", "--rate", "2", "--no-rate"), "--rate 2 and --no-rate: give one of"),
        (("set", "openai", "--no-rate"), "a limit needs concurrency=, rate=, or both"),
        (("set", "disk", "--burst", "2"), "burst 2 needs a rate"),
        (("set", "a*b", "--rate", "2"), "may have '*' only as its last character"),
        (("pause", "openai", "0"), "pause 0 must be between"),
        (("pause", "openai", "nan"), "pause nan must be between"),
        (("pause", "tenant:*", "5"), "is a family; pause its names one by one"),
        (("resume", "tenant:*"), "is a family"),
        (("pause", "opnai", "5"), "no limit 'opnai' is stored; there are: disk, openai, tenant:*"),
        (("resume", "opnai"), "no limit 'opnai' is stored"),
        (("reset", "opnai"), "no limit 'opnai' is stored"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(words, said):
    code = 1 if "is stored" in said else 2
    assert said in refused(code, "limits", *words, "--app", APP)


def test_without_limits_that_is_said(tmp_path):
    url = f"sqlite:///{tmp_path}/none.db"
    good("migrate", "--store", url)
    assert good("limits", "list", "--store", url).strip() == "No limits."
    assert "apps declare them" in refused(1, "limits", "reset", "x", "--store", url)


def test_fairness_shows_keys_by_waiting_and_by_share(store):
    do(store, lambda s: s.configure("mail", QueueSettings(weights=(("big", 2.0),))))
    jobs = [new_job(f"a{n}", fairness_key="acme") for n in range(3)]
    do(store, lambda s: s.enqueue([*jobs, new_job("b", fairness_key="big")]))
    keys = good_json("fairness", "mail", "--app", APP)["keys"]
    assert [(each["key"], each["waiting"], each["weight"]) for each in keys] == [
        ("acme", 3, 1.0),
        ("big", 1, 2.0),
    ]
    assert [each["share"] for each in keys] == [0.333333, 0.666667]
    keys = good_json("fairness", "mail", "--by", "share", "--app", APP)["keys"]
    assert [each["key"] for each in keys] == ["big", "acme"]
    shown = good("fairness", "mail", "-n", "1", "--app", APP)
    assert "33.3%" in shown
    assert "1 more; see them with -n 2" in shown


def test_weights_are_set_and_the_others_stay(store):
    do(store, lambda s: s.configure("mail", QueueSettings(grace=5.0, weights=(("big", 2.0),))))
    do(store, lambda s: s.enqueue([new_job("a", fairness_key="a=b"), new_job("b")]))
    keys = good_json("fairness", "mail", "--weight", "a=b=3", "--app", APP)["keys"]
    assert {each["key"]: each["weight"] for each in keys} == {"a=b": 3.0}
    good("fairness", "mail", "--weight", "big=1", "--weight", "free=0.5", "--app", APP)
    settings = do(store, lambda s: s.facts()).queue("mail")
    assert settings == QueueSettings(grace=5.0, weights=(("a=b", 3.0), ("free", 0.5)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acme", "--weight 'acme' must be a fairness key and a number: acme=3"),
        ("=3", "--weight '=3' must be"),
        ("acme=much", "--weight 'acme=much' must be"),
        ("acme=nan", "weight nan of fairness key 'acme' must be a number from 0.001 to 1000"),
        ("acme=0", "weight 0.0 of fairness key 'acme' must be"),
    ],
)
def test_a_weight_that_is_none_is_refused_and_nothing_is_set(store, text, words):
    assert words in refused(2, "fairness", "mail", "--weight", text, "--app", APP)
    assert do(store, lambda s: s.facts()).queues == {}


def test_fairness_of_a_queue_that_nobody_knows_says_so():
    result = run("fairness", "mial", "--app", APP)
    assert "No fairness key has work waiting." in result.output
    assert "note: queue 'mial' has no job" in result.stderr


def test_the_limits_of_an_app_are_stored_before_the_first_call_that_names_one(store, monkeypatch):
    from tests.cli import apps  # noqa: PLC0415

    monkeypatch.setitem(apps.app.declared_limits, "new", Limit(concurrency=1))
    good("enqueue", APP, "send", "ann")
    assert "new" not in by_name()
    good("enqueue", APP, "send", "ann", "--limits", "new")
    assert by_name()["new"]["in_force"] == {"concurrency": 1}


def test_a_limit_that_only_the_app_declares_is_changed_as_a_whole(monkeypatch):
    from tests.cli import apps  # noqa: PLC0415

    monkeypatch.setitem(apps.app.declared_limits, "new", Limit(rate=60, per=60))
    monkeypatch.setitem(apps.app.declared_limits, "disk", Limit(concurrency=9))
    assert "new: set; 30 per 60 s" in good("limits", "set", "new", "--rate", "30", "--app", APP)
    assert by_name()["disk"]["in_force"] == {"concurrency": 1}


def test_a_call_names_limits_one_or_several_with_costs(store, monkeypatch):
    from tests.cli import apps  # noqa: PLC0415

    monkeypatch.setitem(apps.app.declared_limits, "openai", Limit(rate=60, per=60))
    monkeypatch.setitem(apps.app.declared_limits, "disk", Limit(concurrency=1))
    one = good("enqueue", APP, "send", "ann", "--limits", "disk").strip()
    two = good("enqueue", APP, "send", "ann", "--limits", '{"openai": 3, "disk": 1}').strip()
    assert do(store, lambda s: s.get(one)).limits == '{"disk":1}'
    assert do(store, lambda s: s.get(two)).limits == '{"disk":1,"openai":3}'
    assert "is not declared" in refused(2, "enqueue", APP, "send", "ann", "--limits", "dsk")
    unread = refused(2, "enqueue", APP, "send", "ann", "--limits", '{"disk": NaN}')
    assert """limits '{"disk": NaN}' is no JSON; write a name, a list, or costs by name""" in unread
    words = ("schedules", "put", "x", "send", "ann", "--every", "60", "--limits", '["disk"]')
    good(*words, "--fairness-key", "acme", "--app", APP)

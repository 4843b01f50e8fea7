"""What is enqueued when a job is done: made from its body and its result, nothing else."""

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from mulligan.core.decide import decide
from mulligan.core.explain import Surroundings, explain
from mulligan.core.facts import Facts
from mulligan.core.flow import (
    MOST_MEMBERS,
    ROOT_LIMIT,
    Flow,
    FlowError,
    check_root,
    flow_of,
    following,
    gathering,
    gathering_id,
    member_id,
    member_keep,
    stage_id,
)
from mulligan.core.job import Claim, NewJob, decode_call, encode, first_token, never_arrives
from mulligan.core.lane import Priority
from mulligan.core.outcome import Dead, Done, Succeeded
from mulligan.core.stage import Stage
from tests.core.jobs import WAITING
from tests.core.refusal import refused
from tests.core.test_decide import claimed

UPLOAD = Stage("upload", queue="uploads")
REPORT = Stage("report", queue="reports", region="EU", delay=5.0)
SAVE = Stage("save", queue="sinks")
PATH = ("classify", "upload", "report")


def finished(flow: Flow | None = None, sink: Stage | None = None, **changes: object) -> Claim:
    body: dict[str, object] = {"task": "classify", "args": ["a"], "kwargs": {}}
    body |= {"flow": flow} if flow else {}
    body |= {"sink": sink} if sink else {}
    return replace(claimed(), id="root", body=encode(body), **changes)


def said(job: NewJob) -> list[object]:
    args: list[object] = msgspec.json.decode(job.body)["args"]
    return args


def test_a_job_that_stands_alone_is_followed_by_nothing():
    assert following(claimed(), b"1") == ()
    assert flow_of(claimed().body) is None


def test_the_next_stage_takes_the_result_and_knows_the_rest():
    [job] = following(finished(Flow("root", PATH, then=(UPLOAD, REPORT))), b'{"a":1}')
    assert (job.id, job.queue, job.task, said(job)) == ("root.2", "uploads", "upload", [{"a": 1}])
    assert flow_of(job.body) == Flow("root", PATH, 2, (REPORT,))


def test_a_stage_goes_to_its_own_region_or_stays_in_that_of_the_job_before():
    flow = Flow("root", PATH, then=(UPLOAD, REPORT))
    [here] = following(finished(flow, region="US"), b"1")
    [there] = following(finished(replace(flow, number=2, then=(REPORT,)), region="US"), b"1")
    assert (here.region, there.region, there.delay) == ("US", "EU", 5.0)
    assert there.id == "root.3"


def test_everything_that_was_said_of_a_stage_reaches_its_job():
    stage = Stage(
        "upload",
        queue="uploads",
        priority=Priority.URGENT,
        retry=Raw(b'{"max_retries":7}'),
        timeout=30.0,
        expires=60.0,
        keep=90,
        limits='{"api":3}',
        fairness_key="acme",
        on_dead=Stage("mourn", "graves", retry=Raw(b'{"max_retries":1}')),
        gated=True,
        sink=SAVE,
    )
    [job] = following(finished(Flow("root", PATH, then=(stage,))), b"1")
    assert (job.priority, job.expires) == (Priority.URGENT, 60.0)
    assert (job.limits, job.fairness_key) == ('{"api":3}', "acme")
    assert job.keep == 90
    assert msgspec.json.decode(job.body) == {
        "task": "upload",
        "args": [1],
        "kwargs": {},
        "retry": {"max_retries": 7},
        "timeout": 30.0,
        "on_dead": {"task": "mourn", "queue": "graves", "retry": {"max_retries": 1}},
        "gated": True,
        "sink": {"task": "save", "queue": "sinks"},
        "flow": {"root": "root", "path": list(PATH), "number": 2},
    }


def test_what_was_not_said_of_a_stage_is_not_said_of_its_job():
    [job] = following(finished(Flow("root", PATH, then=(Stage("upload"),))), b"1")
    assert set(msgspec.json.decode(job.body)) == {
        *("task", "args", "kwargs", "retry", "timeout", "flow")
    }


def test_a_gathering_job_says_if_its_id_is_the_callers_own():
    flow = Flow("root", PATH, 2, members=3, gathers=True)
    own, other = (gathering("all", REPORT, "US", flow, named=named) for named in (True, False))
    assert msgspec.json.decode(own.body)["named"] is True
    assert "named" not in msgspec.json.decode(other.body)


def test_a_job_that_nothing_follows_from_is_done_whatever_else_its_body_holds():
    odd = replace(finished(Flow("root", PATH)), body=b'{"named":"odd"}')
    assert decide(odd, Succeeded(b"1"), Facts(), 0.0) == Done(odd.lease, b"1")


def test_the_last_stage_is_followed_by_nothing():
    assert following(finished(Flow("root", PATH, 3)), b"1") == ()


def test_a_result_of_none_is_passed_on_as_none():
    [job] = following(finished(Flow("root", PATH, then=(UPLOAD,))), None)
    assert said(job) == [None]


def test_the_key_of_a_chain_is_held_by_each_of_its_jobs_in_turn():
    flow = Flow("root", PATH, then=(UPLOAD,), key=("questions", "monday"))
    [job] = following(finished(flow), b"1")
    assert (job.key_queue, job.unique_key, job.queue) == ("questions", "monday", "uploads")


def test_a_sink_is_called_with_the_result_and_a_key_of_job_and_replay():
    [job] = following(finished(sink=SAVE, replay=2, region="EU"), b'"news"')
    assert (job.id, job.queue, job.region) == ("root.sink.2", "sinks", "EU")
    body = msgspec.json.decode(job.body)
    assert (body["args"], body["kwargs"]) == (["news"], {"key": "root.2"})


def test_a_stage_may_have_a_sink_and_a_stage_after_it():
    jobs = following(finished(Flow("root", PATH, then=(UPLOAD,)), SAVE), b"1")
    assert [job.id for job in jobs] == ["root.sink.0", "root.2"]


EACH = Stage("upload", queue="uploads", each=True)


def test_a_fan_out_has_a_job_for_each_element_and_one_that_gathers_them():
    flow = Flow("root", PATH, then=(EACH, REPORT), key=("questions", "monday"))
    gather, *members = following(finished(flow), b'["x",{"y":2},null]')
    assert (gather.id, gather.awaits, gather.unique_key) == ("root.3", 3, "monday")
    assert flow_of(gather.body) == Flow("root", PATH, 3, (), flow.key, 3, gathers=True)
    assert [job.id for job in members] == ["root.2.0", "root.2.1", "root.2.2"]
    assert [said(job) for job in members] == [["x"], [{"y": 2}], [None]]
    assert [(job.gather, job.gather_index, job.unique_key) for job in members] == [
        ("root.3", place, None) for place in range(3)
    ]


def test_what_comes_after_a_gather_is_known_to_the_job_that_gathers():
    last = Stage("archive")
    flow = Flow("root", (*PATH, "archive"), gathers=True, then=(EACH, REPORT, last))
    gather, member = following(finished(flow), b"[1]")
    [after, spread] = [flow_of(job.body) for job in (gather, member)]
    assert after is not None
    assert spread is not None
    assert (after.then, after.gathers) == ((last,), True)
    assert (spread.then, spread.gathers) == ((), False)


def test_a_member_has_its_element_and_what_gathers_has_nothing_to_begin_with():
    jobs = following(finished(Flow("root", PATH, then=(EACH, REPORT))), b"[1]")
    calls = [msgspec.json.decode(job.body) for job in jobs]
    assert [(call["args"], call["kwargs"]) for call in calls] == [([], {}), ([1], {})]


def test_the_first_job_of_a_flow_has_the_name_of_the_flow():
    assert stage_id(Flow("root", PATH)) == "root"
    assert stage_id(Flow("root", PATH, 2)) == "root.2"


def test_a_fan_out_that_ends_the_chain_gathers_nothing():
    jobs = following(finished(Flow("root", PATH, then=(EACH,))), b"[1,2]")
    assert [(job.id, job.gather) for job in jobs] == [("root.2.0", None), ("root.2.1", None)]


def test_a_fan_out_over_nothing_goes_straight_on():
    [gather] = following(finished(Flow("root", PATH, then=(EACH, REPORT))), b"[]")
    assert (gather.id, gather.awaits) == ("root.3", 0)
    assert following(finished(Flow("root", PATH, then=(EACH,))), b"[]") == ()


@pytest.mark.parametrize("result", [b'"text"', b'{"a":1}', b"7", None])
def test_what_is_no_list_cannot_be_spread(result):
    with pytest.raises(FlowError, match=r"each\(upload\) needs a list, and the result is none"):
        following(finished(Flow("root", PATH, then=(EACH,))), result)


def test_a_fan_out_has_a_limit():
    most = encode([0] * MOST_MEMBERS)
    flow = Flow("root", PATH, then=(EACH,))
    assert len(following(finished(flow), most)) == MOST_MEMBERS
    with pytest.raises(FlowError, match="takes at most 10000 elements, not 10001; put several"):
        following(finished(flow), encode([0] * (MOST_MEMBERS + 1)))


def test_a_result_that_the_next_stage_cannot_be_made_from_is_a_dead_letter():
    claim = finished(Flow("root", PATH, then=(EACH,)))
    outcome = decide(claim, Succeeded(b"7"), Facts(), 0.0)
    assert isinstance(outcome, Dead)
    assert (outcome.failure.type, outcome.next) == ("Flow", ())


def test_a_member_whose_chain_goes_on_hands_its_arrival_on():
    flow = Flow("root", PATH, then=(UPLOAD,), awaited_by="all.2", awaited_index=3)
    handing = decide(finished(flow), Succeeded(b"1"), Facts(), 0.0)
    keeping = decide(finished(replace(flow, then=())), Succeeded(b"1"), Facts(), 0.0)
    assert isinstance(handing, Done)
    assert isinstance(keeping, Done)
    assert (handing.hands_on, keeping.hands_on) == (True, False)


def test_a_fan_out_arrives_at_one_of_its_own_jobs_and_hands_nothing_on():
    outcome = decide(
        finished(Flow("root", PATH, then=(EACH, REPORT))), Succeeded(b"[1]"), Facts(), 0.0
    )
    assert isinstance(outcome, Done)
    assert outcome.hands_on is False


@pytest.mark.parametrize("field", ["flow", "sink"])
def test_what_cannot_be_read_is_a_dead_letter_and_no_defect(field):
    body = encode({"task": "a", "args": [], "kwargs": {}, field: {"root": 5, "task": 5}})
    claim = replace(claimed(), body=body)
    outcome = decide(claim, Succeeded(b"1"), Facts(), 0.0)
    assert isinstance(outcome, Dead)
    assert "what comes after the job cannot be read" in outcome.failure.message
    assert flow_of(body) is None


def test_an_argument_named_flow_is_no_flow():
    body = encode({"task": "a", "args": [{"flow": {"root": 1}, "sink": 2}], "kwargs": {}})
    claim = replace(claimed(), body=body)
    assert flow_of(body) is None
    assert decide(claim, Succeeded(b"1"), Facts(), 0.0) == Done(claim.lease, b"1")


def named_root(flow: Flow | None = None, sink: Stage | None = None, token: int = 0) -> Claim:
    """A claim of a job whose id its caller chose, under this token."""
    claim = finished(flow, sink, token=token)
    return replace(claim, body=claim.body[:-1] + b',"named":true}')


def test_what_follows_from_an_id_of_the_callers_own_is_named_after_its_life():
    token = first_token(17) + 3
    flow = Flow("root", PATH, then=(UPLOAD, REPORT))
    sink, second = following(named_root(flow, SAVE, token), b"1")
    assert (sink.id, second.id) == ("root~17.sink.0", "root~17.2")
    assert decode_call(sink.body).kwargs == {"key": "root.0"}
    [third] = following(replace(finished(), id=second.id, body=second.body, token=1), b"1")
    assert third.id == "root~17.3"


def test_what_a_gather_is_followed_by_is_named_after_the_life_of_what_gathers():
    flow = Flow("root", ("each(read)", "upload", "report"), 2, (EACH,), members=3, gathers=True)
    claim = replace(named_root(flow, token=first_token(5) + 1), id="root.2")
    assert [job.id for job in following(claim, b"[1, 2]")] == ["root~5.3.0", "root~5.3.1"]
    assert stage_id(replace(flow, life=5)) == "root.2"
    assert member_id(replace(flow, number=1, life=5), 0) == "root.1.0"


def test_the_job_that_gathers_calls_is_named_as_the_stage_after_them():
    for life in (0, 5):
        after = Flow("root", ("each(read)", "upload"), 2, members=3, gathers=True, life=life)
        assert gathering_id("root") == stage_id(after)


def test_lives_of_one_id_never_share_a_name():
    claims = [named_root(sink=SAVE, token=first_token(n) + 1) for n in (1, 2, 30)]
    assert len({following(claim, b"1")[0].id for claim in claims}) == 3


def test_explain_says_how_many_have_yet_to_arrive():
    around = Surroundings(now=1000.0, ahead=0, facts=Facts(), live_workers=1)
    body = encode({"flow": Flow("root", PATH, 3, members=5, gathers=True)})
    assert explain(replace(WAITING, awaits=2, body=body), around) == (
        "Waiting for 2 of 5 jobs whose results it gathers;"
        " those that failed arrive when they are replayed and succeed."
    )
    assert explain(replace(WAITING, awaits=2), around).startswith("Waiting for 2 jobs")


def test_why_a_gathering_job_is_cancelled_names_who_never_arrives():
    assert never_arrives("m0", "purged") == "job m0, which it awaits, was purged"


def test_the_id_of_a_chain_leaves_room_for_those_of_its_jobs():
    assert check_root("x" * ROOT_LIMIT) == "x" * ROOT_LIMIT
    long = "x" * 101
    with refused(
        f"id {'x' * 40!r} has 101 characters; that of a chain has at most 100,"
        " because its jobs are named after it"
    ):
        check_root(long)


BOUND = Stage("resize", args=(Raw(b'"b"'),), kwargs={"width": Raw(b"80")})
IGNORING = Stage("notify", args=(Raw(b'"ops"'),), ignores=True)


def called(job: NewJob) -> tuple[list[object], dict[str, object]]:
    call = decode_call(job.body)
    return call.args, call.kwargs


def test_a_stage_is_called_with_what_was_bound_around_the_result():
    [job] = following(finished(Flow("root", PATH, then=(BOUND,))), b"1")
    assert called(job) == (["b", 1], {"width": 80})


def test_a_stage_that_ignores_the_result_is_called_with_what_was_bound_alone():
    [job] = following(finished(Flow("root", PATH, then=(IGNORING,))), b"1")
    assert called(job) == (["ops"], {})


def test_every_job_of_a_fan_out_and_the_sink_are_called_with_what_was_bound():
    spread = replace(BOUND, each=True)
    flow = Flow("root", PATH, then=(spread, IGNORING, BOUND))
    kept, gather, *members = following(finished(flow, sink=BOUND), b"[1,2]")
    assert called(kept) == (["b", [1, 2]], {"width": 80, "key": "root.0"})
    assert [called(member) for member in members] == [
        (["b", 1], {"width": 80}),
        (["b", 2], {"width": 80}),
    ]
    assert called(gather) == (["ops"], {})
    assert decode_call(gather.body).flow.ignores
    told = flow_of(gather.body)
    assert told is not None
    [after] = following(finished(told), b"1")
    assert not decode_call(after.body).flow.ignores


def test_a_job_that_another_gathers_is_kept_no_shorter_than_others():
    assert [member_keep(keep) for keep in (None, 15, 3599, 3600, 86_400)] == [
        None,
        None,
        None,
        3600,
        86_400,
    ]


def test_the_next_stage_of_a_member_arrives_where_the_member_is_awaited():
    flow = Flow("root", PATH, then=(UPLOAD,), awaited_by="all.2", awaited_index=3)
    [job] = following(finished(flow), b"1")
    assert (job.gather, job.gather_index) == ("all.2", 3)
    [alone] = following(finished(Flow("root", PATH, then=(UPLOAD,))), b"1")
    assert (alone.gather, alone.gather_index) == (None, 0)


def test_failures_arrive_only_where_a_gather_asks_for_them():
    flow = Flow("root", PATH, members=2)
    assert not gathering("root.2", REPORT, "EU", flow).return_exceptions
    assert gathering("root.2", REPORT, "EU", flow, return_exceptions=True).return_exceptions

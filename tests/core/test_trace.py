"""A trace is handed on to all that follows from a job, unread."""

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from mulligan.core.decide import decide
from mulligan.core.facts import Facts
from mulligan.core.flow import Flow, following
from mulligan.core.job import NO_TRACE, Claim, NewJob, encode, traced
from mulligan.core.outcome import Dead, Failed
from mulligan.core.stage import Stage
from tests.core.test_decide import claimed

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
LATER = Stage("resize", each=True), Stage("combine")


def finished(**body: object) -> Claim:
    return replace(claimed(), id="root", body=encode({"task": "split", **body}))


def trace_of(job: NewJob) -> object:
    return msgspec.json.decode(job.body).get("trace")


def test_stages_members_gathering_jobs_and_sinks_belong_to_the_trace():
    flow = Flow("root", ("split", "each(resize)", "combine"), then=LATER)
    jobs = following(finished(flow=flow, sink=Stage("save"), trace=TRACE), b"[1,2]")
    assert len(jobs) == 4
    assert [trace_of(job) for job in jobs] == [TRACE] * 4


def test_who_is_told_of_a_dead_letter_belongs_to_the_trace():
    outcome = decide(
        finished(on_dead=Stage("tell"), trace=TRACE),
        Failed("E", "e", non_retryable=True),
        Facts(),
        0.0,
    )
    assert isinstance(outcome, Dead)
    assert [trace_of(job) for job in outcome.next] == [TRACE]


def test_without_a_trace_bodies_stay_as_they_are():
    [job] = following(finished(sink=Stage("save")), b"1")
    assert trace_of(job) is None
    assert traced(job, NO_TRACE) is job
    assert trace_of(traced(job, Raw(b'{"a":"b"}'))) == {"a": "b"}

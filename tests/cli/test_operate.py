"""Commands that change something: enqueue, cancel, pause, resume, dead, migrate, doctor."""

import os
import time

import pytest
from msgspec.json import encode

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Separate
from mulligan.core.finding import Finding
from mulligan.core.known_tasks import Registration, Unknown, unknown_note
from mulligan.core.page import Selection
from mulligan.core.worker import ORDER, Worker
from mulligan.engine.heartbeat import WorkerNote
from tests.cli.command_line import (
    APP,
    claim,
    configure,
    do,
    fail,
    gone,
    good,
    good_json,
    new_job,
    refused,
    run,
)


def statuses(store):
    """Every job's status by id."""
    page = do(store, lambda s: s.page(Selection(), 1000))
    return {job.id: job.status for job in page.jobs}


@pytest.fixture
def three_dead(store):
    """Three dead letters and a job that waits."""

    async def fill(store):
        await store.enqueue([new_job(name) for name in ("a", "b", "c")])
        await fail(store, await claim(store, 2), "timed out")
        await fail(store, await claim(store, 1), "refused")
        await store.enqueue([new_job("waits")])

    do(store, fill)
    return store


def test_enqueue_prints_the_id_and_reads_arguments_as_json_or_text(store):
    job = good("enqueue", APP, "send", "me@example.org", "3", "-k", "subject=hi there").strip()
    body = good_json("job", job, "-a", APP)["body"]
    assert body["args"] == ["me@example.org", 3]
    assert body["kwargs"] == {"subject": "hi there"}


def test_enqueue_takes_options_of_the_job(store):
    good(
        "enqueue", APP, "add", "1", "--queue", "sums", "--region", "EU", "--delay", "60",
        "--priority", "urgent", "--id", "one", "--expires", "90", "--timeout", "5",
        "--unique-key", "u", "--fairness-key", "k", "--", "-2",
    )  # fmt: skip
    job = good_json("job", "one", "-a", APP)
    assert (job["queue"], job["region"], job["priority"]) == ("sums", "EU", 2)
    assert job["body"]["args"] == [1, -2]
    assert job["body"]["timeout"] == 5
    assert (job["unique_key"], job["fairness_key"]) == ("u", "k")


def test_enqueue_says_when_the_job_was_there_before(store):
    assert good_json("enqueue", APP, "add", "1", "2", "--id", "one")["created"]
    again = run("enqueue", APP, "add", "1", "2", "--id", "one")
    assert again.exit_code == 0
    assert "there before" in again.stderr


def test_cancel_ends_jobs_and_tells_which_it_could_not(three_dead):
    assert "Cancelled 1 of 1." in good("cancel", "waits", "-a", APP, "--reason", "no need")
    assert good_json("job", "waits", "-a", APP)["cancel_reason"] == "no need"
    said = refused(1, "cancel", "waits", "a", "nowhere", "-a", APP)
    assert "waits (already cancelled), a (already failed), nowhere (unknown)" in said


def test_pause_and_resume_answer_with_json(store):
    said = good_json("pause", "mail", "-a", APP)
    assert said == {"queues": [{"queue": "mail", "paused": True, "changed": True}]}
    said = good_json("pause", "mail", "calls", "-a", APP)
    assert [each["changed"] for each in said["queues"]] == [False, True]
    said = good_json("resume", "mail", "-a", APP)
    assert said == {"queues": [{"queue": "mail", "paused": False, "changed": True}]}


def test_pause_and_resume_say_what_they_did(store):
    assert good("pause", "mail", "-a", APP) == "mail: paused\n"
    assert good("pause", "mail", "-a", APP) == "mail: was paused already\n"
    assert do(store, lambda s: s.facts()).paused == {"mail"}
    assert good("resume", "mail", "-a", APP) == "mail: resumed\n"
    assert good("resume", "mail", "-a", APP) == "mail: was not paused\n"
    assert "note: queue 'mial'" in run("pause", "mial", "-a", APP).stderr


def test_dead_letters_are_listed(three_dead):
    assert "timed out" in good("dead", "list", "-a", APP)
    found = good_json("dead", "list", "-a", APP, "--text", "refused")["jobs"]
    assert [job["id"] for job in found] == ["c"]
    assert "No dead letters." in good("dead", "list", "-a", APP, "--queue", "other")


def test_a_list_shows_the_beginning_of_a_long_failure_and_the_job_the_whole(store):
    async def fill(store):
        await store.enqueue([new_job("long")])
        await fail(store, await claim(store, 1), "x" * 1000)

    do(store, fill)
    for listing in (("dead", "list"), ("jobs",)):
        said = good(*listing, "-a", APP)
        assert said.count("x") < 250
        assert "x…" in said
    assert good("job", "long", "-a", APP).count("x") > 1000


def test_one_dead_letter_is_replayed_without_a_question(three_dead):
    assert "Replayed 1 of 1." in good("dead", "replay", "a", "-a", APP)
    assert statuses(three_dead)["a"] == "pending"


def test_many_dead_letters_are_replayed_after_a_question(three_dead):
    assert "nothing was replayed" in refused_last("dead", "replay", "-a", APP)
    assert "nothing was replayed" in refused_last("dead", "replay", "-a", APP, input="n\n")
    assert "Replayed 3 of 3." in good("dead", "replay", "-a", APP, input="y\n")
    assert "failed" not in statuses(three_dead).values()


def refused_last(*arguments, **more):
    """The last line of a refusal that follows a question."""
    result = run(*arguments, **more)
    assert result.exit_code == 1
    return result.stderr.splitlines()[-1]


def test_dead_letters_that_match_are_purged(three_dead):
    assert good_json("dead", "purge", "-a", APP, "--text", "timed", "--yes") == {
        "purged": 2,
        "refused": [],
    }
    assert statuses(three_dead) == {"c": "failed", "waits": "pending"}
    assert "No dead letter matches." in good("dead", "purge", "-a", APP, "--text", "timed")


def test_purge_leaves_alone_what_has_not_failed(three_dead):
    good("cancel", "waits", "-a", APP)
    said = refused(1, "dead", "purge", "waits", "nowhere", "-a", APP, "--yes")
    assert "not purged: waits, nowhere" in said
    assert statuses(three_dead)["waits"] == "cancelled"


def test_jobs_and_a_filter_together_are_refused(three_dead):
    assert "give either" in refused(2, "dead", "replay", "a", "--queue", "mail", "-a", APP)


def test_migrate_makes_the_store_and_may_be_run_again(url):
    for _ in range(2):
        assert f"The schema of {url} is up to date." in good("migrate", "--store", url)


def doctors(*more):
    """What the doctor says, by level."""
    result = run("doctor", APP, *more)
    return result.exit_code, result.stdout


def test_the_doctor_finds_an_idle_store_without_workers_tolerable(store):
    code, said = doctors("--probe")
    assert code == 0
    assert "✓ a probe could be written, read and deleted" in said
    assert "! no worker is alive" in said
    assert statuses(store) == {}


def test_the_doctor_counts_no_server_as_a_worker(store):
    server = Worker("serve-1", queues=(), lease=3600.0)
    do(store, lambda s: s.beat(server, []))
    _, said = doctors()
    assert "! no worker is alive" in said
    assert "live worker" not in said.replace("no live worker", "")


def test_the_doctor_is_content_with_a_served_store(store):
    do(store, lambda s: claim(s, 1))
    code, said = doctors()
    assert code == 0
    assert "✓ 1 live worker in default" in said
    assert "! queue default of the app has no live worker" in said
    assert "every waiting job has a worker" in said


def test_the_doctor_finds_jobs_that_nobody_may_take(store):
    async def fill(store):
        await store.enqueue([new_job("here"), new_job("there", region="EU")])
        await claim(store, 1)

    do(store, fill)
    code, said = doctors()
    assert code == 1
    assert "✗ 1 job of queue mail for region EU waits, and no live worker may take it" in said
    assert f"start one with: mulligan worker {APP} --region EU --queue mail" in said


def test_the_doctor_finds_retries_without_a_worker(store):
    async def fill(store):
        await store.enqueue([new_job("again")])
        lost = await claim(store, 1)
        await store.leave(Worker("w-1"))
        reaper = Worker("fresh-only", queues=("mail",), only="fresh")
        claims = await store.reclaim(1, reaper)
        assert [each.id for each in claims] == [each.id for each in lost]
        from mulligan.core.decide import decide  # noqa: PLC0415
        from mulligan.core.outcome import Lost  # noqa: PLC0415

        await store.commit([decide(each, Lost(), await store.facts(), 0.5) for each in claims])

    do(store, fill)
    code, said = doctors()
    assert code == 1
    assert "✗ 1 retry of queue mail for any region waits, and no live worker" in said


def test_the_doctor_finds_a_one_sided_queue(store):
    async def fill(store):
        await configure(store, "mail", QueueSettings(Separate()))
        await store.beat(Worker("w", queues=("mail", "default"), only="fresh"), [])

    do(store, fill)
    code, said = doctors()
    assert code == 1
    assert "✗ queue mail has policy separate and no live worker for its retries" in said
    assert "! queue mail has policy" not in said


def test_the_doctor_tells_of_jobs_that_a_dead_worker_holds(store):
    async def fill(store):
        await store.enqueue([new_job("held")])
        await claim(store, 1)

    do(store, fill)
    now = time.time()
    store.state.clock = lambda: now + 60
    code, said = doctors()
    assert code == 1
    assert "✗ worker w-1 stopped beating 60" in said
    assert "holds 1 jobs\n  → start a worker: any one reclaims them" in said


def test_the_doctor_tells_of_a_pause_without_alarm(store):
    do(store, lambda s: s.enqueue([new_job("waits")]))
    good("pause", "mail", "-a", APP)
    code, said = doctors()
    assert code == 0
    assert "! queue mail is paused" in said


def test_the_doctor_passes_on_what_the_store_says(store, monkeypatch):
    async def own():
        return [
            Finding("ok", "the file is on a local disk"),
            Finding("bad", "no space", "make some"),
        ]

    monkeypatch.setattr(store, "doctor", own, raising=False)
    code, said = doctors()
    assert code == 1
    assert "✓ the file is on a local disk" in said
    assert "✗ no space\n  → make some" in said


def test_the_doctor_sees_clocks_apart(store):
    store.state.clock = lambda: 1000.0
    code, said = doctors()
    assert code == 0
    assert "behind this machine's" in said
    do(store, gone)


def test_the_doctor_names_a_task_that_nobody_knows_and_names_that_clash(store):
    async def fill(store):
        now = (await store.stats()).now
        known = [
            Registration("ann", now, ("mail",), {"old": "()"}, left=True),
            Registration("bob", now, ("mail",), {"send": "(to)"}, settings={"limit a": "8"}),
            Registration("eve", now, ("mail",), {"send": "(weight)"}, settings={"limit a": "9"}),
        ]
        for each in known:
            await store.note(each.note, encode(each), 60.0)
        met = Unknown("old", "mail", "j", now)
        await store.note(unknown_note("old"), encode(met), 60.0)
        await claim(store, 1)

    do(store, fill)
    code, said = doctors()
    assert code == 1
    assert "✓ 1 live worker in default" in said
    assert "every waiting job has a worker" not in said
    assert "✗ no live worker knows task 'old'; worker ann knew it last, " in said
    assert "! task 'send' is send(to) to worker bob and send(weight) to worker eve" in said
    assert "! limit a is 8 to worker bob and 9 to worker eve" in said


def test_a_worker_is_drained_by_its_id_and_one_that_is_not_known_is_named(store):
    async def start(store):
        worker = Worker("w-1", "EU", ("mail",))
        await store.beat(worker, [])
        await WorkerNote(store, worker, "shop:app", lambda _order: None).look()

    async def order(store):
        return await store.notes(ORDER)

    do(store, start)
    assert good("drain", "w-1", "-a", APP) == "w-1: will drain within 5 s\n"
    assert do(store, order) == {"order:w-1": b'"drain"'}
    assert good_json("drain", "w-1", "--now", "-a", APP) == {
        "order": "stop",
        "workers": ["w-1"],
        "unknown": [],
    }
    assert do(store, order) == {"order:w-1": b'"stop"'}
    assert "no such worker: w-2" in refused(1, "drain", "w-2", "w-1", "-a", APP)
    assert f"{os.getpid()}" in good("workers", "-a", APP)


def test_a_worker_that_tells_nothing_of_itself_takes_no_orders(store):
    do(store, lambda store: store.beat(Worker("w-1", "EU", ("mail",)), []))
    assert "takes no orders" in refused(2, "drain", "w-1", "-a", APP)

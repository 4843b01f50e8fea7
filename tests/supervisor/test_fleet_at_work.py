"""A fleet as its users see it: real processes that are killed, drained, replaced and adopted."""

import os
import signal
import time

import pytest

from tests.supervisor.fleet import LONGEST_WAIT, gone

pytestmark = pytest.mark.timeout(400)


def eventually(true) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_workers_are_replaced_until_the_fleet_is_back_to_size(fleet):
    fleet.write(mail={"min": 3})
    fleet.start()
    for _ in range(5):
        pids = fleet.ready("mail", 3)
        os.kill(pids["mail-2"], signal.SIGKILL)
        died = fleet.until(
            lambda pid=pids["mail-2"]: [e for e in fleet.all("died") if e["pid"] == pid]
        )
        assert "killed by SIGKILL after" in died[0]["text"]
    after = fleet.ready("mail", 3)
    assert after["mail-1"] == pids["mail-1"]


def test_the_next_supervisor_adopts_what_a_killed_one_left(fleet, enqueue, on_store):
    fleet.write(mail={"min": 3})
    first = fleet.start()
    before = fleet.ready("mail", 3)
    jobs = enqueue("hold", str(fleet.gate), str(fleet.ledger), times=6)
    fleet.until(lambda: len(fleet.ran()) == 6)
    first.kill()
    first.wait()
    second = fleet.start()
    fleet.heard("adopted", times=3)
    assert fleet.pids() == before
    fleet.gate.touch()
    eventually(lambda: all(s == "done" for s in statuses(on_store, jobs)))
    assert sorted(job for job, _ in fleet.ran()) == sorted(jobs)
    assert fleet.stop(second) == 0
    assert fleet.pids() == {}
    assert len(fleet.all("started")) == 3


def statuses(on_store, jobs) -> list[str]:
    async def look(store):
        return [(await store.get(job)).status for job in jobs]

    found: list[str] = on_store(look)
    return found


def test_an_adopted_worker_that_dies_is_replaced(fleet):
    fleet.write(mail={})
    first = fleet.start()
    pid = fleet.ready("mail", 1)["mail-1"]
    first.kill()
    first.wait()
    fleet.start()
    fleet.heard("adopted")
    os.kill(pid, signal.SIGKILL)
    assert fleet.heard("died")["pid"] == pid
    assert fleet.ready("mail", 1)["mail-1"] != pid


def test_what_the_file_no_longer_has_is_drained_by_the_next_supervisor(fleet):
    fleet.write(mail={}, post={})
    first = fleet.start()
    fleet.ready("mail", 1)
    fleet.ready("post", 1)
    first.kill()
    first.wait()
    fleet.write(mail={})
    fleet.start()
    assert "no longer has this kind" in fleet.heard("ended", "post-1")["text"]
    fleet.heard("adopted", "mail-1")
    assert list(fleet.pids()) == ["mail-1"]


def test_a_second_supervisor_is_refused(fleet):
    fleet.write(mail={})
    first = fleet.start()
    fleet.heard("ready")
    second = fleet.start()
    assert second.wait(LONGEST_WAIT) == 1
    said = fleet.heard("?")["text"]
    assert said.startswith(f"error: a supervisor (pid {first.pid}) runs on {fleet.state} already")
    assert first.poll() is None


def test_orphaned_workers_end_by_themselves(fleet):
    fleet.write(orphan_grace=0.5, mail={}, keep={"service": True})
    first = fleet.start()
    pids = [*fleet.ready("mail", 1).values(), *fleet.ready("keep", 1).values()]
    first.kill()
    first.wait()
    eventually(lambda: all(gone(pid) for pid in pids))
    assert "no supervisor for 0.5 s; ending" in (fleet.state / "mail-1.log").read_text()
    assert "no supervisor for 0.5 s; ending" in (fleet.state / "keep-1.log").read_text()


def test_sighup_starts_replaces_and_drains_what_changed(fleet):
    fleet.write(mail={"min": 2}, post={}, same={})
    process = fleet.start()
    before = {**fleet.ready("mail", 2), **fleet.ready("same", 1)}
    fleet.ready("post", 1)
    fleet.write(mail={"min": 2, "concurrency": 7}, news={}, same={})
    process.send_signal(signal.SIGHUP)
    fleet.heard("reloaded")
    fleet.heard("replacing", "mail-1", "the fleet file changed")
    fleet.heard("replacing", "mail-2", "the fleet file changed")
    fleet.ready("news", 1)
    fleet.heard("ended", "post-1", "no longer has this kind")
    old = {before["mail-1"], before["mail-2"]}
    fleet.until(lambda: not old & set(fleet.pids().values()))
    fleet.ready("mail", 2)
    assert fleet.pids()["same-1"] == before["same-1"]
    said = [e["event"] for e in fleet.events if e.get("slot", "").startswith("mail")]
    assert said.index("ready", said.index("replacing")) < said.index(
        "replacing", said.index("replacing") + 1
    ), "the second is replaced when the first is ready again"
    assert fleet.stop(process) == 0


def test_a_bad_file_is_told_and_the_old_one_stays_in_force(fleet):
    fleet.write(mail={})
    process = fleet.start()
    before = fleet.ready("mail", 1)
    fleet.file.write_text("[kinds.mail]\napp = 'tests.supervisor.apps:app'\nmni = 3\n")
    process.send_signal(signal.SIGHUP)
    said = fleet.heard("refused")["text"]
    assert "fleet.toml:3: unknown key 'mni'; did you mean min?" in said
    assert "the old file stays in force" in said
    assert fleet.pids() == before
    os.kill(before["mail-1"], signal.SIGKILL)
    fleet.heard("ready", times=2)


def test_a_worker_older_than_max_runtime_is_drained_and_replaced(fleet, enqueue, on_store):
    fleet.write(mail={"max_runtime": 1.5})
    fleet.start()
    first = fleet.ready("mail", 1)["mail-1"]
    [job] = enqueue("hold", str(fleet.gate), str(fleet.ledger))
    fleet.heard("replacing", "mail-1", "max_runtime 1.5 s")
    fleet.gate.touch()
    ended = fleet.heard("ended", "mail-1", "max_runtime 1.5 s; exit code 0")
    assert ended["pid"] == first
    fleet.heard("ready", times=2)
    eventually(lambda: statuses(on_store, [job]) == ["done"])


def test_a_successor_is_ready_before_a_worker_is_replaced_and_stays_as_it_did(fleet):
    fleet.write(mail={"min": 1, "max_concurrent": 2, "max_runtime": 1.5, "idle_exit": 0.2})
    fleet.start()
    fleet.ready("mail", 1)
    fleet.heard("replacing", "mail-1", "max_runtime 1.5 s")
    said = [(event["event"], event.get("slot")) for event in fleet.events]
    assert said.index(("ready", "mail-2")) < said.index(("replacing", "mail-1"))
    # Only what replaced it may replace the successor: it does not end when idle.
    fleet.heard("replacing", "mail-2", "max_runtime 1.5 s")
    assert not fleet.all("ended", text="idle") + fleet.all("died")


def test_a_worker_over_its_memory_limit_is_drained_and_replaced(fleet, enqueue):
    fleet.write(mail={"memory_limit": "250 MiB"})
    fleet.start()
    fleet.ready("mail", 1)
    enqueue("eat", 300)
    assert "over 250 MiB" in fleet.heard("replacing", "mail-1", "memory")["text"]
    fleet.heard("ready", times=2)


def test_more_are_started_while_jobs_wait_and_end_when_idle(fleet, enqueue):
    fleet.write(mail={"min": 1, "max_concurrent": 3, "concurrency": 2, "idle_exit": 3})
    fleet.start()
    stays = fleet.ready("mail", 1)
    enqueue("hold", str(fleet.gate), str(fleet.ledger), times=6)
    fleet.heard("scaled", text="mail 1 → 3 (depth ")
    fleet.until(lambda: len(fleet.ran()) == 6)
    assert len({pid for _, pid in fleet.ran()}) == 3
    fleet.gate.touch()
    fleet.heard("ended", text="idle; exit code 0", times=2)
    eventually(lambda: fleet.pids() == stays)


def test_a_command_that_is_not_needed_any_more_is_drained(fleet, enqueue, on_store):
    command = ["sleep", "600"]
    kind = {"command": command, "store": fleet.url, "queues": ["default"], "min": 0}
    fleet.write(any=kind | {"max_concurrent": 2, "idle_exit": 0.3})
    fleet.start()
    jobs = enqueue("block", 0, times=2)
    fleet.heard("started", "any-2")
    on_store(lambda store: store.cancel(jobs, "enough"))
    fleet.heard("ended", "any-1", "not needed for 0.3 s")
    fleet.heard("ended", "any-2", "not needed for 0.3 s")
    assert fleet.pids() == {}


def test_what_keeps_dying_is_started_later_each_time(fleet):
    script = "echo once; echo the disk is on fire >&2; exit 3"
    fleet.write(bad={"command": ["sh", "-c", script], "backoff": 0.1, "backoff_max": 0.4})
    fleet.start()
    fleet.heard("died", "bad-1", times=5)
    died = fleet.all("died")
    assert [e["text"].partition("; ")[2] for e in died[:5]] == [
        "again in 0.1 s", "again in 0.2 s", "again in 0.4 s", "again in 0.4 s", "again in 0.4 s",
    ]  # fmt: skip
    assert died[0]["text"].startswith("exit code 3 after")
    assert died[0]["lines"] == ["once", "the disk is on fire"]


def test_a_program_that_is_not_there_is_tried_again_later(fleet):
    fleet.write(bad={"command": ["/no/such/program"]}, good={})
    fleet.start()
    said = fleet.heard("died", "bad-1", times=3)["text"]
    assert said.startswith("could not be started: [Errno 2] No such file or directory")
    fleet.ready("good", 1)


def test_a_service_runs_once_and_takes_no_job(fleet, enqueue, on_store):
    fleet.write(keep={"service": True, "cooldown": 0})
    process = fleet.start()
    pid = fleet.ready("keep", 1)["keep-1"]
    [job] = enqueue("block", 0)
    os.kill(pid, signal.SIGKILL)
    fleet.until(lambda: fleet.ready("keep", 1)["keep-1"] != pid)
    assert statuses(on_store, [job]) == ["pending"]
    assert fleet.stop(process) == 0


def test_what_does_not_end_in_time_is_killed(fleet):
    script = "trap '' TERM; while :; do sleep 0.05; done"
    fleet.write(deaf={"command": ["sh", "-c", script], "drain_timeout": 0.1})
    process = fleet.start()
    fleet.heard("ready")
    assert fleet.stop(process) == 1
    fleet.heard("killed", "deaf-1", "the fleet stops; killed by SIGKILL")


def test_a_second_signal_hurries(fleet, enqueue):
    fleet.write(mail={"drain_timeout": 600})
    process = fleet.start()
    fleet.ready("mail", 1)
    enqueue("hold", str(fleet.gate), str(fleet.ledger))
    fleet.until(lambda: len(fleet.ran()) == 1)
    process.send_signal(signal.SIGTERM)
    fleet.heard("line", text="draining: 1 attempts")
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONGEST_WAIT) == 1
    fleet.heard("stopping", text="at once")
    assert fleet.pids() == {}


def test_what_a_dead_worker_left_behind_is_ended(fleet):
    script = "sleep 600 & exec sleep 601"
    fleet.write(any={"command": ["sh", "-c", script]})
    fleet.start()
    fleet.heard("ready")
    leader = fleet.heard("started")["pid"]
    os.kill(leader, signal.SIGKILL)
    fleet.heard("ready", times=2)
    assert len([pid for pid in fleet.pids().values() if not gone(pid)]) == 1


def test_a_store_that_is_away_stops_nothing(fleet):
    fleet.write(
        any={"command": ["sleep", "600"], "store": "redis://127.0.0.1:1/0", "queues": ["q"]}
    )
    process = fleet.start()
    fleet.heard("ready", "any-1")
    assert "what runs is kept" in fleet.heard("store away", text="redis://127.0.0.1:1")["text"]
    os.kill(fleet.pids()["any-1"], signal.SIGKILL)
    fleet.heard("ready", "any-1", times=2)
    assert fleet.stop(process) == 0

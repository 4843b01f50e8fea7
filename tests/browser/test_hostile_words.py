"""Whatever jobs, queues, regions, workers and errors are called, it is shown and never run."""

from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import expect

from mulligan.core.counts import Count, FailureName, RuntimeName
from mulligan.core.decide import decide
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.fleets import Exit, FleetState, KindState, SlotState, note_key
from mulligan.core.job import NewJob, encode
from mulligan.core.limits import costs_text
from mulligan.core.outcome import Failed, Succeeded
from mulligan.core.worker import Worker

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(2)</script>",
    "javascript:alert(3)",
    "<svg/onload=alert(4)>",
    "</title><style>*{display:none}</style>",
    "../../%2e%2e/?q=#/x",
    "__proto__",
    "constructor",
    "\u202e\u2066right to left",
    "two\u2028lines",
)

PAGES = ("", "queues", "tasks", "jobs", "jobs?status=failed", "dead", "workers")
MARKUP = "main :is(img, script, style, iframe, object, embed, base, link)"
# Links that lead anywhere but to a page of the dashboard.
ELSEWHERE = """[...document.querySelectorAll("main a")]
    .map((link) => link.getAttribute("href")).filter((href) => !href.startsWith("#/"))"""


async def fill(store):
    for number, word in enumerate(HOSTILE):
        await jobs_of(store, number, word)
        names = RuntimeName("failed", "0.5", word).written, FailureName(word, word).written
        await store.count([Count(word, word, name, 1.0) for name in names])
        key = note_key(word, word)
        exit_ = Exit(word, 1, 1.0, word, (word,))
        kind = KindState(1, word, 1, 0, 0, 0, 1, 1.0, None, (SlotState(word, word),), (exit_,))
        state = FleetState(word, word, 1, 1.0, 1.0, word, {word: kind}, {word: word})
        await store.note(key, msgspec.json.encode(state), 3600.0)


async def jobs_of(store, number, word):
    """A failed, a done and a waiting job, in which every word is this one."""
    body = encode({"task": word, "args": [word], "kwargs": {word: word}})
    fields = {"unique_key": word, "fairness_key": word, "limits": costs_text({word: 9})}
    dead = NewJob(word, word, word, body, region=word, **fields)
    done = NewJob(f"done {number}", word, word, body, region=word)
    cancelled = NewJob(f"cancelled {number}", word, word, body, region=word)
    await store.enqueue([dead, done])
    worker = Worker(word, word, (word,), concurrency=2)
    facts = (await store.beat(worker, [])).facts
    claims = (await store.claim(plan_claim(2, word, [(word, Carry())], facts), worker)).claims
    failed = Failed(word, word, code=word, non_retryable=True)
    succeeded = Succeeded(encode({word: word}))
    for claim in claims:
        result = failed if claim.id == word else succeeded
        await store.commit([decide(claim, result, facts, 0.5)])
    await store.enqueue([cancelled, NewJob(f"waiting {number}", word, word, body, region=word)])
    await store.cancel([cancelled.id], word)


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve()
    site.on_store(fill)
    return site


def test_pages_show_every_word_as_it_is(site, page):
    for path in PAGES:
        page.open(site, path)
        text = page.page.locator("main").text_content() or ""
        assert [word for word in HOSTILE if word not in text] == [], path
        expect(page.page.locator(MARKUP)).to_have_count(0)
        assert page.page.evaluate(ELSEWHERE) == [], path


@pytest.mark.parametrize("half", [0, 1])
def test_queues_and_their_jobs_are_shown_as_they_are_called(site, page, half):
    for number, word in list(enumerate(HOSTILE))[half::2]:
        page.page.goto(f"{site.address}/#/queues/{quote(word, safe='')}")
        expect(page.heading).to_have_text(word)
        expect(page.page.locator(".lane")).to_have_count(1)
        page.page.goto(f"{site.address}/#/tasks/{quote(word, safe='')}")
        expect(page.heading).to_have_text(word)
        expect(page.page.get_by_role("region", name="Last dead letters")).to_contain_text(word)
        expect(page.page.locator(MARKUP)).to_have_count(0)
        for job in (word, f"done {number}", f"cancelled {number}", f"waiting {number}"):
            page.page.goto(f"{site.address}/#/jobs/{quote(job, safe='')}")
            expect(page.page.locator(".heading .id")).to_have_text(job)
            expect(page.heading).to_have_text(word)
            expect(page.page.get_by_role("region", name="Payload")).to_contain_text(word)
            expect(page.page.locator(".explanation")).to_be_visible()
            expect(page.page.locator(MARKUP)).to_have_count(0)
            assert page.page.evaluate(ELSEWHERE) == [], job


def test_a_hostile_queue_is_paused_and_its_dead_letter_replayed(site, page):
    word = HOSTILE[0]
    page.open(site, "queues")
    page.button(f"Pause queue {word}").click()
    page.says(f"Queue {word} is paused")
    page.open(site, "dead")
    page.rows().filter(has_text=word).get_by_role("checkbox").check()
    page.button("Replay").click()
    page.agree("Replay 1 job?", "Replay 1")
    page.says("1 job replayed.")

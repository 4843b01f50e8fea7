"""Limits and fairness keys in the dashboard: who waits for what, and what an operator can do."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.limits import Limit, costs_text
from mulligan.core.worker import Worker
from tests.cli.command_line import new_job


async def fill(store):
    """A limit with one job running and two waiting, one paused, a family, and two keys."""
    await store.set_limit("disk", Limit(concurrency=1), declared=True)
    await store.set_limit("openai", Limit(rate=60, per=60, concurrency=8), declared=True)
    await store.set_limit("tenant:*", Limit(concurrency=2), declared=True)
    await store.configure("mail", QueueSettings(weights=(("big", 3.0),)))
    await store.enqueue([new_job(f"d{n}", limits=costs_text({"disk": 1})) for n in range(3)])
    two = costs_text({"openai": 1, "tenant:acme": 1})
    await store.enqueue([new_job(f"o{n}", limits=two) for n in range(2)])
    worker = Worker("w-1", "default", ("mail",), lease=3600.0)  # it never beats again
    facts = (await store.beat(worker, [])).facts
    await store.claim(plan_claim(4, "default", [("mail", Carry())], facts), worker)
    keys = ["acme"] * 30 + ["big"] * 4 + ["zoe"]
    await store.enqueue([new_job(f"k{n}", fairness_key=key) for n, key in enumerate(keys)])


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve()
    site.on_store(fill)
    return site


def picture(page, name: str) -> None:
    """Keep a picture for people, where it is asked for."""
    folder = os.environ.get("MULLIGAN_TEST_PICTURES")
    if folder:
        page.page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)


def test_limits_are_seen_paused_resumed_set_and_reset(site, page):
    page.open(site, "limits")
    expect(page.rows()).to_have_count(4)
    disk = page.rows().filter(has_text="disk")
    expect(disk).to_contain_text("when one ends")
    expect(disk.locator(".badge")).to_have_text("full")
    openai = page.rows().filter(has_text="openai")
    expect(openai).to_contain_text("60 per 1 min, 8 at a time")
    expect(openai).to_contain_text("2 of 60 in the last 1 min")
    expect(page.rows().filter(has_text="tenant:acme")).to_contain_text("of its family")
    page.button("Pause openai").click()
    page.agree("Pause openai?", "Pause")
    page.says("Nobody of openai starts for now.")
    expect(openai.locator(".badge")).to_have_text("paused")
    picture(page, "limits-paused")
    page.button("Resume openai").click()
    expect(openai.locator(".badge")).to_have_text("open")

    page.button("Set openai").click()
    dialog = page.page.get_by_role("dialog", name="Set openai")
    dialog.get_by_label("Starts, or their cost").fill("30")
    dialog.get_by_label("At a time").fill("")
    picture(page, "limits-set")
    page.agree("Set openai", "Set")
    expect(openai).to_contain_text("set by an operator; declared: 60 per 1 min, 8 at a time")
    [view] = [each for each in site.get("/api/limits")["limits"] if each["name"] == "openai"]
    assert view["in_force"] == {"rate": 30, "per": 60.0}
    page.button("Reset openai").click()
    expect(openai).to_contain_text("60 per 1 min, 8 at a time")


def test_the_overview_begins_with_paused_and_full_limits(site, page):
    site.post("/api/limits/openai/pause", {"seconds": 3600})
    page.open(site)
    limits = page.page.get_by_role("region", name="Paused and full limits").get_by_role("listitem")
    expect(limits.first).to_contain_text("paused openai")
    expect(limits.first).to_contain_text("ends in")
    expect(limits.nth(1)).to_contain_text("full disk 2 waiting, 1 running")
    expect(page.page.get_by_role("article", name="Global retry queue")).to_have_count(0)
    picture(page, "overview-limits")
    limits.first.get_by_role("link", name="openai").click()
    expect(page.heading).to_have_text("Limits")
    site.post("/api/limits/openai/resume", {})


def test_a_queue_whose_due_jobs_all_wait_for_a_paused_limit_says_so(site, page):
    async def held(store):
        await store.set_limit("slow", Limit(rate=9, per=1), declared=True)
        await store.beat(Worker("w-2", "default", ("held",), lease=3600.0), [])
        jobs = [new_job(f"h{n}", queue="held", limits=costs_text({"slow": 1})) for n in range(3)]
        await store.enqueue(jobs)

    site.on_store(held)
    page.open(site, "queues/held")
    state = page.page.locator(".heading .badge")
    expect(state).to_have_text("serving")
    site.post("/api/limits/slow/pause", {"seconds": 3600})
    expect(state).to_have_text("limit paused")
    site.post("/api/limits/slow/resume", {})
    expect(state).to_have_text("serving")


def test_what_cannot_be_is_refused_in_the_words_of_the_server(site, page):
    page.expects_refusals = True
    page.open(site, "limits")
    page.button("Set disk").click()
    page.page.get_by_role("dialog", name="Set disk").get_by_label("At a time").fill("")
    page.agree("Set disk", "Set")
    page.says("a limit needs concurrency=, rate=, or both")


def test_keys_are_seen_on_the_queues_page_and_sorted_by_share(site, page):
    page.open(site, "queues/mail")
    keys = page.page.get_by_role("region", name="Fairness keys").locator("tbody tr")
    expect(keys).to_have_count(3)
    expect(keys.first).to_contain_text("acme")
    sort = page.button("Share of starts")
    sort.click()
    sort.click()
    expect(keys.first).to_contain_text("big")
    expect(keys.first).to_contain_text("60 %")
    picture(page, "queue-keys")


def test_both_fit_a_phone(site, phone):
    for where in ("limits", "queues/mail"):
        phone.open(site, where)
        expect(phone.rows().first).to_be_visible()
        assert phone.is_narrow_enough()
        picture(phone, f"phone-{where.replace('/', '-')}")

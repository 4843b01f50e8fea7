"""A region whose breaker is open comes back, however idle the others are."""

from mulligan import Delays, Mulligan, Retry, current_job

FAST = Retry(5, Delays((1.0,)))


def test_an_idle_healthy_region_does_not_keep_an_ailing_one_from_its_probes():
    app = Mulligan("memory://")
    outage = [True]
    ran_in: list[str] = []

    @app.task(queue="q", retry=FAST, region="B")
    async def work() -> None:
        region = current_job().worker_region
        ran_in.append(region)
        if region == "B" and outage:
            raise TimeoutError("B is out of order")

    with app.testing(regions=("A", "B"), concurrency=4) as t:
        for _ in range(60):
            work.enqueue()
        t.advance(5)
        assert t.run(t.store.facts()).is_open("q", "B")
        t.drain()
        outage.clear()
        ran_in.clear()
        for _ in range(10):
            work.enqueue()
            t.advance(5)
        assert ran_in[:3] == ["B", "B", "B"]
        assert not t.run(t.store.facts()).is_open("q", "B")

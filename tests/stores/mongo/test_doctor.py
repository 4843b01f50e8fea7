"""What the doctor says."""

from mulligan.stores.mongo import MongoStore
from tests.store_kit import handle


async def test_the_doctor_looks_at_what_matters(store_url, clock, tasks):
    async with handle(store_url + "&w=1", clock) as store:
        assert isinstance(store, MongoStore)
        findings = await store.doctor()
        tasks.drop_index("expires")
        worse = await store.doctor()
    assert {state for state, _, _ in findings} <= {"ok", "warn"}
    said = " ".join(sentence for _, sentence, _ in findings)
    for word in ("version", "w=1", "change streams", "clock", "indexes"):
        assert word in said
    assert [sentence for state, sentence, _ in worse if state == "bad"] == [
        "indexes are missing: tasks.expires"
    ]

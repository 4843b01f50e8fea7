"""What the doctor says."""

from mulligan.stores.postgres import doctor
from tests.store_kit import with_query
from tests.stores.postgres.kit import connected, opened


async def test_the_doctor_finds_a_healthy_store_healthy(store):
    findings = await store.doctor()
    assert {grade for grade, *_ in findings} == {"ok"}
    assert any("LISTEN works" in sentence for _, sentence, _ in findings)


async def test_the_doctor_names_what_is_wrong_and_what_to_do(store, url):
    with connected(url) as connection:
        connection.execute("DROP INDEX waiting_lane")
    [bad] = [each for each in await store.doctor() if each[0] == "bad"]
    assert "waiting_lane" in bad[1]
    assert "REINDEX" in bad[2]
    async with opened(with_query(url, listen="off")) as quiet:
        assert any("listen=off" in sentence for _, sentence, _ in await quiet.doctor())


def test_the_doctor_names_an_encoding_that_cannot_hold_every_text():
    row = (150000, "15", "LATIN1", "on", "on", 0.0, True, True, True, True)
    [finding] = [each for each in doctor._server(*row, clock=0.0) if each[0] == "bad"]
    assert "encoded in LATIN1" in finding[1]
    assert "ENCODING 'UTF8'" in finding[2]

"""A worker process looks for garbage more seldom, unless its app says how often."""

import gc
from collections.abc import Iterator

import pytest

from mulligan.cli.garbage import COLLECT_AFTER, spare_garbage_collection


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((700, 10, 10), (COLLECT_AFTER, 10, 10)),
        ((50_000, 5, 5), (50_000, 5, 5)),
        ((0, 10, 10), (0, 10, 10)),
    ],
)
def test_the_threshold_is_raised_and_what_the_app_has_said_holds(before, after):
    gc.set_threshold(*before)
    spare_garbage_collection()
    assert gc.get_threshold() == after


def test_what_was_loaded_before_is_no_garbage():
    spare_garbage_collection()
    assert gc.get_freeze_count() > 0

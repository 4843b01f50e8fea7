"""Where a task runs: what it may declare together, and what is refused."""

import pytest

from mulligan import InvalidError
from mulligan.core.runs import Runs, check_pool, check_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MB", 512 << 20), ("1.5 GiB", 3 << 29), ("64k", 64 << 10), ("100", 100), (7, 7)],
)
def test_sizes_are_bytes_or_text_with_a_unit(text, size):
    assert check_size("max_memory", text) == size


@pytest.mark.parametrize("size", ["half", "", "-1MB", 0, -5, 1.5, True, None, "0"])
def test_other_sizes_are_refused(size):
    with pytest.raises(InvalidError, match=r"max_memory .* must be a number of bytes, or text"):
        check_size("max_memory", size)


def test_the_only_pool_is_that_of_processes():
    assert (check_pool("process"), check_pool(None)) == ("process", None)
    with pytest.raises(InvalidError, match="pool 'threads' is unknown; use \"process\""):
        check_pool("threads")


def test_nothing_can_be_raised_in_a_thread():
    Runs(soft_timeout=1).check("t", None, in_thread=False)
    Runs("process", soft_timeout=1).check("t", None, in_thread=True)
    with pytest.raises(InvalidError, match=r"nothing can be raised in a thread; make it a corout"):
        Runs(soft_timeout=1).check("t", None, in_thread=True)


def test_a_task_without_a_soft_timeout_may_run_in_a_thread():
    Runs().check("t", 1.0, in_thread=True)


def test_a_soft_timeout_comes_before_the_timeout():
    Runs(soft_timeout=1).check("t", 1.5, in_thread=False)
    with pytest.raises(InvalidError, match="soft_timeout 2 must be shorter than timeout 2"):
        Runs(soft_timeout=2).check("t", 2.0, in_thread=False)


def test_memory_is_measured_in_a_process_of_its_own():
    Runs("process", max_memory=1 << 20).check("t", None, in_thread=True)
    with pytest.raises(InvalidError, match=r'has max_memory, .* add pool="process"'):
        Runs(max_memory=1 << 20).check("t", None, in_thread=True)


def test_memory_that_python_itself_does_not_fit_into_was_meant_in_another_unit():
    with pytest.raises(InvalidError, match=r'max_memory 512 bytes, .*; give .* as "512MB"'):
        Runs("process", max_memory=512).check("t", None, in_thread=True)

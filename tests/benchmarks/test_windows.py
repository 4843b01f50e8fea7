"""What the benchmark of limits says of starts against a bound is true of starts that are known."""

from benchmarks.windows import over_bucket, over_window, used


def test_starts_at_the_bound_are_not_above_it() -> None:
    times = [second + part / 4 for second in range(3) for part in range(4)]
    assert over_window(times, 4, 1.0) == (4, 0)


def test_each_start_above_the_bound_of_a_window_counts() -> None:
    assert over_window([0.0, 0.1, 0.2, 0.9, 1.05], 2, 1.0) == (4, 3)


def test_a_bucket_may_be_emptied_and_refills() -> None:
    times = [0.0, 0.0, 0.0, 0.5, 1.0]
    assert over_bucket(times, rate=2, burst=3) == (3, 0)


def test_each_start_above_a_bucket_counts() -> None:
    assert over_bucket([0.0, 0.0, 0.1, 0.1], rate=2, burst=2) == (3, 2)


def test_what_was_used_is_a_part_of_what_was_allowed() -> None:
    assert used([10.0, 10.5, 11.0, 11.5, 12.0], rate=4, seconds=2.0) == 0.5
    assert used([0.0, 0.0, 1.0], rate=1, seconds=2.0, burst=1) == 1.0

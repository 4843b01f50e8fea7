"""Values that the core accepts, for property tests."""

from typing import get_args

from hypothesis import reject, settings
from hypothesis import strategies as st

from mulligan.core.checks import LONGEST
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import (
    Balanced,
    Capped,
    FetchPolicy,
    Fifo,
    RetryFirst,
    Separate,
    Weighted,
)
from mulligan.core.plan import ONE
from mulligan.core.retry import (
    Adaptive,
    Backoff,
    Curve,
    Delays,
    Exponential,
    Jitter,
    Retry,
    Sessions,
)

# A shared machine may stall at any line, so no example has a deadline.
steady = settings(deadline=None)

draws = st.floats(0, 1, exclude_max=True)
retry_numbers = st.integers(1, 10**9)
durations = st.floats(0, LONGEST)
factors = st.floats(0, exclude_min=True, allow_infinity=False)
jitters = st.sampled_from(get_args(Jitter))


@st.composite
def curves(draw: st.DrawFn, kinds: tuple[type[Curve], ...] = (Exponential, Adaptive, Sessions)):
    """Any curve that is not refused."""
    base = draw(durations)
    factor = draw(factors)
    top = draw(st.none() | st.floats(base, LONGEST))
    jitter = draw(jitters)
    try:
        match draw(st.sampled_from(kinds)).__name__:
            case "Adaptive":
                return Adaptive(base, factor, top, jitter, draw(factors))
            case "Sessions":
                within = tuple(draw(st.lists(durations, max_size=5)))
                return Sessions(len(within) + 1, within, base, factor, top, jitter)
            case _:
                return Exponential(base, factor, top, jitter)
    except InvalidError:
        reject()


delays = st.lists(durations, min_size=1, max_size=20).map(lambda waits: Delays(tuple(waits)))
backoffs: st.SearchStrategy[Backoff] = curves() | delays
retries = st.builds(
    Retry,
    max_retries=st.none() | st.integers(0, 10**6),
    backoff=backoffs,
    scope=st.sampled_from(["global", "region"]),
)

# A share in whole millionths: the carry is kept in them.
shares = st.integers(1, ONE - 1).map(lambda millionths: millionths / ONE)
policies: st.SearchStrategy[FetchPolicy] = st.one_of(
    st.sampled_from([Fifo(), RetryFirst(), Separate(), Balanced()]),
    shares.map(Weighted),
    st.integers(1, 10**6).map(Capped),
)

"""How often a worker process looks for garbage."""

import gc

# So many more objects must have been made than were freed. Python's own threshold is 700.
COLLECT_AFTER = 10_000


def spare_garbage_collection() -> None:
    """Look for garbage in what attempts make, and not so often.

    Modules are no garbage, and are the most of what a worker holds. Each attempt that waits makes a
    dozen objects that end with it, without help: with Python's own threshold of 700 a tenth of the
    worker's time went into looking at those of a hundred attempts.
    """
    gc.freeze()
    first, *others = gc.get_threshold()
    if first:  # 0: the app has turned it off
        gc.set_threshold(max(first, COLLECT_AFTER), *others)

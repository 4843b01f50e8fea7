"""A module that cannot be imported."""

import a_module_that_is_nowhere  # type: ignore[import-not-found]  # noqa: F401

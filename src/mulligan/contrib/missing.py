"""The error for a missing package that one of the integrations here needs."""


def missing(error: ModuleNotFoundError, module: str, extra: str) -> ModuleNotFoundError:
    """The error with its remedy; one of our own modules that is missing is a defect."""
    if (error.name or "").startswith("mulligan"):
        return error
    return ModuleNotFoundError(
        f"{module} needs {error.name!r}, which is not installed;"
        f" run: pip install 'mulligan[{extra}]'",
        name=error.name,
    )

"""The chart as a PNG, for viewers that cannot show SVG."""

from collections.abc import Callable

from mulligan.core.errors import InvalidError

# Twice the size, so that it is sharp on dense screens.
ZOOM = 2


def png(picture: str) -> bytes:
    """The SVG as pixels."""
    return bytes(renderer()(svg_string=picture, zoom=ZOOM, sans_serif_family="DejaVu Sans"))


def renderer() -> Callable[..., bytes]:
    """The renderer; refused if its library is missing."""
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415 - an extra that few need
    except ImportError as error:
        raise InvalidError(
            "a chart in PNG needs resvg-py; install it with: pip install 'mulligan[chart]',"
            " or give a .svg file"
        ) from error
    return svg_to_bytes

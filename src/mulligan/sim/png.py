"""The chart as a PNG, for places that show no SVG."""

from collections.abc import Callable

from mulligan.core.errors import InvalidError

# Twice the size, so that it is sharp on a dense screen and when it is made larger.
ZOOM = 2


def png(picture: str) -> bytes:
    """The SVG as pixels."""
    return bytes(renderer()(svg_string=picture, zoom=ZOOM, sans_serif_family="DejaVu Sans"))


def renderer() -> Callable[..., bytes]:
    """What draws it; refused where the library is missing."""
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415 - an extra that few need
    except ImportError as error:
        raise InvalidError(
            "a chart in PNG needs resvg-py; install it with: pip install 'mulligan[chart]',"
            " or give a .svg file"
        ) from error
    return svg_to_bytes

"""Shows a picture in the ink that fits the page, light or dark, where there are both.

A page names one, as Markdown does everywhere: `x.svg` beside which stands `x-dark.svg`, or
`x-light.png` beside which stands `x-dark.png`.
"""

from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Pictures(SphinxTransform):
    """Puts the dark one beside the light one; the theme shows one of them."""

    default_priority = 200

    def apply(self, **_: Any) -> None:
        """Before Sphinx collects what pictures there are."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            dark = in_the_dark(image["uri"])
            if dark == image["uri"] or not (folder / dark).exists():
                continue
            other = image.deepcopy()
            image["classes"] += ["only-light"]
            other["uri"] = dark
            other["classes"] += ["only-dark"]
            image.parent.insert(image.parent.index(image) + 1, other)


def in_the_dark(name: str) -> str:
    """The name of the same picture for dark pages."""
    path = PurePosixPath(name)
    return str(path.with_stem(path.stem.removesuffix("-light").removesuffix("-dark") + "-dark"))

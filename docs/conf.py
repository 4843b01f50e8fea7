"""The site of docs/: `make docs` builds it into site/, which opens from files, without a network.

Sphinx reads the pages as GitHub does, by MyST: they are plain Markdown, and their links are links
between files. What the code knows better than prose is put in while a page is read: see extension.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from extension import made_pages, pictures, plain_docstrings

import mulligan

project = "mulligan"
author = "mulligan contributors"
copyright = "mulligan contributors, MIT licence"  # noqa: A001 - the name that Sphinx reads
version = release = mulligan.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["extension", "theme"]
source_suffix = {".md": "markdown"}
highlight_language = "none"
myst_heading_anchors = 4
copybutton_prompt_text = "$ "
myst_enable_extensions = ["colon_fence", "html_image"]

# the reader's own fonts, and scripts from the site itself: nothing is fetched
html_theme = "pydata_sphinx_theme"
html_title = "mulligan"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "theme/scorer.js")
html_favicon = html_logo = "theme/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "mulligan"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "show_prev_next": True,
    "search_as_you_type": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "tutorial/index": []}  # they have no pages below them

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80


def setup(app):  # noqa: ANN001, ANN201, D103 - as Sphinx calls it
    app.connect("source-read", made_pages.read)
    app.add_transform(pictures.Pictures)
    app.connect("autodoc-process-docstring", plain_docstrings.process)

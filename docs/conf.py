"""Sphinx settings of the book. `make book` writes its pages with pages.py and renders them; nothing is fetched."""

import importlib.util
from pathlib import Path

project = "minitransformer"
author = "the minitransformer authors"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "minitransformer"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["book.css"]
html_js_files = ["code.js"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_search_summary = False  # they are fetched page by page, which a browser refuses for files on the disk
exclude_patterns = ["extra"]
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "native"

# The whole of MathJax is a package of 24 MB; the one file that draws formulas as SVG needs no fonts beside it.
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = "tex-svg.js"


def _copy_mathjax(app, error):
    if error is None:
        Path(app.outdir, "_static", mathjax_path).write_bytes(_mathjax.read_bytes())


def _add_notebooks(app):
    app.config.html_extra_path = [str(Path(app.srcdir, "extra"))]  # notebooks, below the book's own address


def setup(app):
    app.connect("builder-inited", _add_notebooks)
    app.connect("build-finished", _copy_mathjax)

"""Sphinx settings of the book. `make book` writes its pages with pages.py and renders them; nothing is fetched."""

import importlib.util
import json
from pathlib import Path

from docutils import nodes

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
html_show_search_summary = False  # Sphinx fetches them page by page, which a browser refuses for files on the disk
exclude_patterns = ["extra"]
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "native"

# The whole of MathJax is a package of 24 MB; the one file that draws formulas as SVG needs no fonts beside it.
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = "tex-svg.js"


def _copy_mathjax(app, error):
    if error is None:
        Path(app.outdir, "_static", mathjax_path).write_bytes(_mathjax.read_bytes())


# The words around a match that the search finds: see static/excerpts.js.
_texts: dict[str, list[tuple[str, str]]] = {}  # page → its sections: anchor, text


def _note_text(app, doctree, docname):
    _texts[docname] = [(section["ids"][0], _own_text(section)) for section in doctree.findall(nodes.section)]
    for entry in doctree.findall(nodes.definition_list_item):
        _texts[docname] += [(name, " ".join(entry.astext().split())) for term in entry[:-1] for name in term["ids"]]


def _own_text(section):
    """The text of a section without its title and without the sections inside."""
    parts = [part for part in section.children if not isinstance(part, (nodes.section, nodes.title, nodes.raw))]
    return " ".join(" ".join(part.astext() for part in parts).split())


def _write_texts(app, error):
    if error is None:
        text = f"const PAGE_TEXTS = {json.dumps(_texts, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", "texts.js").write_text(text, encoding="utf-8")


def _add_excerpts(app, pagename, templatename, context, doctree):
    if pagename == "search":
        app.add_js_file("texts.js")
        app.add_js_file("excerpts.js")


def _add_notebooks(app):
    app.config.html_extra_path = [str(Path(app.srcdir, "extra"))]  # notebooks, below the book's own address


def setup(app):
    app.connect("builder-inited", _add_notebooks)
    app.connect("build-finished", _copy_mathjax)
    app.connect("doctree-resolved", _note_text)
    app.connect("html-page-context", _add_excerpts)
    app.connect("build-finished", _write_texts)

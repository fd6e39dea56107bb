"""The book: how a lesson becomes a page, when it is refused, and whether a browser shows every page as it should."""

import html
import importlib.util
import json
import re
from pathlib import Path

import browser
import pytest

from lessons.harness import claims

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "build" / "book"


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cells = load("cells")

SOURCE = """# %% [markdown]
# # 1. Sky
#
# It is $x$.

# %%
print("hello")


# %%
@lesson.trial("sky", "It is blue.", controls=[c])
def sky(trial):
    return "proved", "yes"
"""


def a_record(**changes):
    claim = {
        "claim": "sky", "lesson": "01_sky", "line": 11, "statement": "It is *blue*.", "verdict": "proved",
        "evidence": "3 of 3 [looks] cost 2 $ or 4 $", "checks": ["a_b < c"], "figures": [],
        "events": [{"check": "a_b < c"}, {"note": "a | b"}, {"figure": "01_sky.png", "caption": "The sky."}],
        "controls": [{"control": "night", "what": "it is dark", "caught": True, "by": "black"}],
    }  # fmt: skip
    output = [[7, "hello\n"], [11, "sky: It is blue.\n"]]
    about = {"lesson": "01_sky", "title": "Sky", "script": __file__, "key": "", "finished": True}
    return about | {"claims": [claim | changes], "output": output}


def test_a_script_is_cut_into_its_cells():
    kinds = [(cell.markdown, cell.first, cell.last) for cell in cells.split(SOURCE)]
    assert not any(cell.plumbing for cell in cells.split(SOURCE))
    assert kinds == [(True, 2, 5), (False, 7, 9), (False, 11, 13)]
    assert cells.split(SOURCE)[0].text == "# 1. Sky\n\nIt is $x$."
    assert cells.split("x = 1\n# %%\ny = 2\n")[0].text == "x = 1"


def test_output_stands_below_the_cell_that_printed_it_and_a_verdict_below_its_trial():
    page = cells.page(SOURCE, a_record())
    order = [page.index(part) for part in ('print("hello")', "\nhello\n", "@lesson.trial", "(claim-sky)=", "/figures/")]
    assert order == sorted(order)
    assert "sky: It is blue." not in page, "a trial's output is told by its box"
    shown = [[9, "a word\n"], [11, "sky: It is blue.\n"], [11, {"figure": "01_dusk.png", "caption": "Dusk."}]]
    page = cells.page(SOURCE.replace('print("hello")', "x = 1"), a_record() | {"output": shown})
    assert "01_dusk.png" in page and "sky: It is blue." not in page, "a figure of its cell is not lost"


def test_a_figure_between_outputs_stands_between_them():
    source = '# %%\nprint("one")\nlesson.show(figure, "x", "A sky.")\nprint("two")\nprint("three")\n'
    shown = [[2, "one\n"], [3, {"figure": "01_x.png", "caption": "A sky."}], [4, "two\n"], [5, "three\n"]]
    page = cells.page(source, {"claims": [], "output": shown})
    order = [
        page.index(part)
        for part in ("sentences\n\none\n", "/figures/01_x.png", r"A sky\.", "sentences\n\ntwo\nthree\n")
    ]
    assert order == sorted(order)
    assert "lesson.show" not in page, "drawing is no part of the argument"


def test_a_prediction_is_not_answered_below_its_question():
    source = '# %% [markdown]\n# Two things fit. **Predict** which wins.\n\n# %%\nx = 1\ncaption = "Both."\nprint(x)\n'
    page = cells.page(source, {"claims": [], "output": [[7, "1\n"]]})
    assert "Both." not in page and page.index("Show what happens") < page.index("\n1\n") < page.index("</details>")
    page = cells.page(source.replace("**Predict** which wins.", "Here is one."), {"claims": [], "output": [[7, "1\n"]]})
    assert "<details>" not in page


def test_questions_before_a_cell_are_recognised():
    assert cells.asks("One.\n\nTwo. Before you\nrun the cell: which one?") and cells.asks("**In how many of the six?**")
    assert not cells.asks("Why?\n\nHere it is:") and not cells.asks("Look at the rows. Which pieces come first?")


def test_the_answer_stays_in_the_fold_with_its_picture():
    source = "# %% [markdown]\n# Which wins?\n\n# %%\nx = 1\n\n"
    source += "# %% [markdown]\n# (Bars are shares.)\n#\n# Both.\n#\n# Next.\n"
    shown = {"claims": [], "output": [[5, {"figure": "01_x.png", "caption": "A sky."}]]}
    order = [
        cells.page(source, shown).index(part) for part in ("<details>", "01_x.png", "Both.", "</details>", "Next.")
    ]
    assert order == sorted(order)
    open_again = cells.page(source.replace("Which wins?", "Here it is."), shown)
    assert "<details>" not in open_again and "Both." in open_again


@pytest.mark.parametrize(
    ("prose", "answer"),
    [
        ("Both.\n\nNext.", "Both."),
        ("Both:\n\n- one\n- two\n\nNext.", "Both:\n\n- one\n- two"),
        ("(Shares.)\n\nBoth.\n\nNext.", "(Shares.)\n\nBoth."),
        ("(Shares.) Both.\n\nNext.", "(Shares.) Both."),
        ("## Next\n\nBoth.", ""),
        ("**Claim.** Both.\n\nNext.", ""),
        ("And now three: which\nwins?\n\nNext.", ""),
        ("Now all of them:", ""),
    ],
    ids=["paragraph", "list", "aside", "with an aside", "heading", "claim", "question", "leads on"],
)
def test_what_is_an_answer(prose, answer):
    found, rest = cells.answered(prose)
    assert found == answer and (found + "\n\n" + rest).strip() == prose


def test_a_question_that_points_to_the_picture_leaves_it_open():
    assert not cells.asks("What shape has it? Decide, then compare with the picture.")


EXCERPT = "--- kernels/cpu/softmax.py, line 86\ndef _softmax(y, x):\n    for n in prange(x.shape[0]):\n\n"


def test_a_piece_of_a_kernel_is_shown_as_code_with_its_place():
    asked = []

    def place(*about):
        asked.append(about)
        return "../kernels/softmax.md#softmax"

    record = {"claims": [], "output": [[2, EXCERPT], [3, "a word\n"]]}
    page = cells.page("# %%\nprint(excerpt(...))\nprint('a word')\n", record, place=place)
    code = "def _softmax(y, x):\n    for n in prange(x.shape[0]):"
    link = "[beside the other tiers](../kernels/softmax.md#softmax)"
    assert f"```{{code-block}} python\n:caption: kernels/cpu/softmax.py, line 86: {link}\n\n{code}\n```" in page
    assert asked == [("kernels/cpu/softmax.py", code)]
    assert "sentences\n\na word\n" in page, "what is printed after it is no code"
    page = cells.page("# %%\nx\n", {"claims": [], "output": [[2, EXCERPT.replace("softmax.py", "softmax.cu")]]})
    assert "{code-block} cuda\n:caption: kernels/cpu/softmax.cu, line 86\n" in page


def test_columns_stay_and_sentences_may_be_broken():
    assert ":class: output sentences\n" in cells.printed_block("a long sentence of words, one after the other")
    assert ":class: output\n" in cells.printed_block("name   value\na      1.5")


def test_a_book_without_solutions(monkeypatch):
    exercise_pages = load("exercise_pages")
    monkeypatch.setattr(exercise_pages.power, "lines", lambda found: [("", "", "9", "2")])
    with_them, without = exercise_pages.pages(()), exercise_pages.pages((), solutions=False)
    assert with_them.keys() - without.keys() == {"exercises/solutions.md"}
    assert not any("#solution-" in text or "\nsolutions\n" in text for text in without.values())


def test_plumbing_is_folded_and_its_output_is_not():
    source = '# %% tags=["plumbing"]\nimport math\nprint("ready")\n# %%\nx = 1\n'
    page = cells.page(source, {"claims": [], "output": [[3, "ready\n"]]})
    folded, rest = page.split("</details>")
    assert folded.startswith("<details><summary>Plumbing") and "import math" in folded and "x = 1" not in folded
    assert "sentences\n\nready" in rest and "x = 1" in rest


def test_quoted_text_is_not_markdown():
    """A dollar would open a formula, a bracket a link, a star emphasis."""
    page = cells.page(SOURCE, a_record())
    assert r"It is \*blue\*\." in page and r"\[looks\] cost 2 \$ or 4 \$" in page and r"a\_b \< c" in page


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "FAILED"}, {"controls": [{"control": "night", "what": "dark", "caught": False, "by": "nothing"}]}],
    ids=["failing claim", "missed control"],
)
def test_a_failing_claim_stops_the_book(tmp_path, monkeypatch, capsys, changes):
    pages = load("pages")
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "project"
    for folder in ("lessons", "kernels/reference"):
        (root / folder).mkdir(parents=True)
    script = root / "lessons" / "01_sky.py"
    script.write_text(SOURCE)
    (root / "kernels" / "reference" / "softmax.py").write_text("def softmax(x): ...\n")
    monkeypatch.setattr(pages, "ROOT", root)
    options = {"backend": "numpy", "full": False, "data": None}
    about = options | {"script": str(script), "key": claims.sources_key(script, **options)}
    claims.write_json(claims.FOLDER / "01_sky.json", a_record() | about)
    (claims.FOLDER / "01_sky.png").write_bytes(b"picture")
    for slow in (pages.exercise_pages, pages.api_pages):  # they have tests of their own
        monkeypatch.setattr(slow, "pages", lambda **_: {})
    assert pages.main(tmp_path / "source") == 0
    assert "[sky](#claim-sky)" in (tmp_path / "source" / "claims.md").read_text()
    assert "This tier has nothing of its own here." in (tmp_path / "source" / "kernels" / "softmax.md").read_text()
    script.write_text(SOURCE + "# a word more\n")
    assert pages.main(tmp_path / "source") == 1
    assert "sources have changed since these lessons ran: 01_sky" in capsys.readouterr().err
    claims.write_json(claims.FOLDER / "01_sky.json", a_record(**changes) | about)
    assert pages.main(tmp_path / "source") == 1
    assert "these lessons have not passed: 01_sky" in capsys.readouterr().err
    (claims.FOLDER / "01_sky.json").unlink()
    assert pages.main(tmp_path / "source") == 1, "a lesson that was never run has not passed either"


needs_browser = pytest.mark.skipif(browser.chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.mark.browser
@needs_browser
def test_every_page_of_the_book(tmp_path):
    pages = sorted(str(file.relative_to(BOOK)) for file in BOOK.rglob("*.html") if "_static" not in file.parts)
    assert pages, "there is no book: make book"
    pages[pages.index("search.html")] = "search.html?q=softmax"
    found, logged = browser.inspect(BOOK, pages, tmp_path)
    assert logged == []
    assert len(found) == len(pages) * len(browser.WIDTHS) and not [one for one in found if "error" in one]
    for fault in ("unrendered", "faulty", "raw", "altered", "missing", "unnamed", "overflow", "foreign"):
        assert [(one["page"], one["width"], one[fault]) for one in found if one[fault]] == [], fault
    assert [one["page"] for one in found if not one["title"] and "search" not in one["page"]] == []
    assert [one["results"] > 0 for one in found if "search" in one["page"]] == [True, True], "the search finds softmax"
    formulas, images = (sum(one[what] for one in found if one["width"] == 390) for what in ("formulas", "images"))
    print(f"{len(pages)} pages, {formulas} formulas, {images} figures")
    assert formulas and images, "a book without formulas and figures was not looked at"


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("path", ["cpu/attention.py", "gpu/attention.cu"])
def test_code_that_is_shown_and_copied_is_the_source(path, tmp_path):
    """Deep lines keep every space, with the script and the style of the book: Python has no other brackets."""
    import pygments.formatters
    import pygments.lexers

    source, language = (ROOT / "kernels" / path).read_text(encoding="utf-8"), {".py": "python"}.get(path[-3:], "cuda")
    assert re.search(r"^ {24}\S", source, re.MULTILINE), "a line as deep as those that went wrong"
    coloured = pygments.highlight(
        source, pygments.lexers.get_lexer_by_name(language), pygments.formatters.HtmlFormatter()
    )
    style, script = ((ROOT / "docs" / "static" / name).as_uri() for name in ("book.css", "code.js"))
    page = tmp_path / "code.html"
    page.write_text(
        f"""<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{style}"><script src="{script}"></script>
        <div class="tiers"><div class="highlight-{language}">{coloured}</div></div><script>
        addEventListener("load", () => {{
          getSelection().selectAllChildren(document.querySelector("pre"));
          const [lines, copied] = [document.querySelectorAll(".line").length, getSelection().toString()];
          document.body.textContent = JSON.stringify([lines, copied, document.querySelector("pre").textContent]);
        }});</script>""",
        encoding="utf-8",
    )
    shown, logged = browser.opened_as_file(page, "", tmp_path)
    lines, copied, written = json.loads(html.unescape(re.search(r"<body>(.*)</body>", shown, re.DOTALL)[1]))
    assert logged == [] and lines == len(source.splitlines())
    assert written == source and copied.rstrip("\n") == source.rstrip("\n")


@pytest.mark.browser
@needs_browser
def test_the_search_works_from_the_disk(tmp_path):
    """Who gets the book as a folder opens it without a server; a browser then refuses to fetch other pages."""
    page, logged = browser.opened_as_file(BOOK / "search.html", "?q=softmax", tmp_path)
    found = re.findall(r'<li[^>]*><a href="([^"?#]+)', page[page.index("search-results") :])
    assert any(link.startswith("kernels/softmax") for link in found), found
    assert logged == []
    excerpts = re.findall(r'<p class="excerpt">(.*?)</p>', page)
    assert len(excerpts) == len(found) and "<mark>softmax</mark>" in "".join(excerpts)
    page, _ = browser.opened_as_file(BOOK / "search.html", "?q=xyzzyqwerty", tmp_path)
    assert "<li" not in page[page.index("search-results") : page.index("</main>") if "</main>" in page else None]


@pytest.mark.browser
@needs_browser
def test_code_on_the_built_pages_of_kernels_is_the_source():
    """That the browser shows this text is seen by the first test ("altered")."""
    block = re.compile(r'"caption-text">([^<]+)</span>.*?<pre>(.*?)</pre>', re.DOTALL)
    files = set()
    for page in (BOOK / "kernels").glob("*.html"):
        for file, coloured in block.findall(page.read_text(encoding="utf-8")):
            if not file.startswith("kernels/"):
                continue  # the caption of a table
            files.add(file)
            source = (ROOT / file).read_text(encoding="utf-8").splitlines()
            lines = html.unescape(re.sub(r"<[^>]*>", "", coloured)).splitlines()
            assert [line for line in lines if line not in source] == [], file
    assert {f"kernels/{tier}/attention.{end}" for tier, end in (("cpu", "py"), ("gpu", "cu"))} <= files


@pytest.mark.browser
@needs_browser
def test_the_claims_lead_to_their_places():
    table = (BOOK / "claims.html").read_text(encoding="utf-8")
    record = json.loads((ROOT / "build" / "claims.json").read_text(encoding="utf-8"))
    assert record["claims"]
    for claim in record["claims"]:
        place = f"lessons/{claim['lesson']}.html"
        assert f'href="{place}#claim-{claim["claim"]}"' in table
        assert f'id="claim-{claim["claim"]}"' in (BOOK / place).read_text(encoding="utf-8")


@pytest.mark.browser
@needs_browser
def test_the_inspector_sees_each_fault(tmp_path):
    """On a page with every fault we look for, each must be reported: otherwise the test above proves nothing."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "bad.html").write_text(
        r"""<!doctype html><meta charset="utf-8"><body><h1>bad</h1><p>raw $\frac12$ here</p>
        <span class="math">\(x\)</span><span data-mjx-error="oh"></span><img src="gone.png">
        <img src="http://127.0.0.1:9/far.png" alt="far"><div style="width: 2000px">wide</div>
        <div class="highlight"><pre>for x in y:\n    print(x)\n</pre></div>
        <script>console.error("something broke")</script>
        <script>document.querySelector("pre").textContent = "for x in y:\nprint(x)\n"</script></body>"""
    )
    found, logged = browser.inspect(tmp_path / "site", ["bad.html"], tmp_path)
    assert [one["width"] for one in found] == list(browser.WIDTHS)
    for one in found:
        assert one["unrendered"] == 1 and one["faulty"] == 1 and one["raw"] and one["overflow"] > 0
        assert one["altered"] == 1
        assert len(one["missing"]) == 2 and len(one["unnamed"]) == 1 and len(one["foreign"]) == 1
    assert any("something broke" in line for line in logged)

"""The pages of the book that are made from sources: kernels in rows, the reference, notebooks, figures."""

import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import autograd.functional as F
import kernels
from autograd import Tensor
from lessons.harness import claims

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import alignment  # noqa: E402
import answer_pages  # noqa: E402
import api_pages  # noqa: E402
import cells  # noqa: E402
import figure_pages  # noqa: E402
import front_pages  # noqa: E402
import kernel_pages  # noqa: E402
import notebooks  # noqa: E402
import pages  # noqa: E402
import reading  # noqa: E402
import torch_page  # noqa: E402
import words  # noqa: E402

SCRIPTS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
NAMES = kernel_pages.kernel_names(ROOT)


# ------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_kernel_stands_on_its_page(name):
    page = kernel_pages.kernel_page(ROOT, name, {})
    words = " ".join(page.split())
    files = [ROOT / "kernels" / tier / f"{name}{end}" for tier, _ in kernel_pages.TIERS for end in kernel_pages.ENDINGS]
    lines = [line for file in files if file.exists() for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines
    for line in lines:  # comments and docstrings on top lose their marks
        text = " ".join(re.sub(r'^//+|^"""|"""$', "", line).split())
        assert text in words, line


CODE = re.compile(r"^````\{code-block\} (?:python|cuda)\n:caption: (\S+)\n\n(.*?)\n````$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", [*NAMES, "helpers"])
def test_code_on_a_page_of_kernels_is_the_source_to_the_last_space(name):
    """Every block, line by line; and every line of a file that is deeper than most stands on its page."""
    page = kernel_pages.pages(ROOT, {})[f"kernels/{name}.md"]
    shown: dict[str, list[str]] = {}
    for file, text in CODE.findall(page):
        shown.setdefault(file, []).extend(text.split("\n"))
    assert shown and page.count("{code-block} python") + page.count("{code-block} cuda") == len(CODE.findall(page))
    for file, lines in shown.items():
        source = (ROOT / file).read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line not in source] == []
        deep = [line for line in source if line.startswith(" " * 16)]
        assert sorted(deep) == sorted(line for line in lines if line.startswith(" " * 16)), file


@pytest.mark.parametrize("name", NAMES)
def test_no_tier_of_a_kernel_is_empty_beside_its_function(name):
    """A function of the contract is implemented on every tier, so each row has three cells."""
    if name == "philox":  # not in the contract: helpers of the tiers differ
        return
    functions = kernel_pages.functions_of(ROOT, name)
    assert {kernel.name for kernel in kernel_pages.CONTRACT.values() if kernel.file == name} == {*functions}
    for folder, _ in kernel_pages.TIERS:
        tier = kernel_pages._tier(ROOT, folder, name, functions)
        for function in functions:
            assert tier.rows[function] or kernel_pages._elsewhere(function, tier), f"{folder}/{name}: {function}"


def test_a_helper_stands_with_the_only_function_that_needs_it(tmp_path):
    text = "import math\n\n\ndef both(x): ...\n\n\ndef _only(x):\n    return both(x)\n\n\n# why\ndef f(x):\n"
    text += "    return _only(x)\n\n\ndef g(x):\n    return both(f(x))\n"
    aligned = alignment.align(["f", "g"], [alignment.python_pieces(text, tmp_path / "k.py")])
    assert [sorted(piece.defines) for piece in aligned.rows["f"]] == [["_only"], ["f"]]
    assert aligned.rows["f"][1].text.startswith("# why")
    assert [sorted(piece.defines) for piece in aligned.rows["g"]] == [["g"]], "f is a row of its own"
    assert [sorted(piece.defines) for piece in aligned.shared] == [[], ["both"]]


def test_cuda_kernels_stand_with_the_function_that_launches_them(tmp_path):
    cu = '// Idea.\n#include "a.h"\n\nextern "C" __global__ void f_rows(real* x) {\n    x[0] = 1;\n}\n\n'
    cu += '// why\nextern "C" __global__ void f_sum(real* x) {\n}\n'
    py = 'def f(x):\n    launch("f_rows")\n\n\ndef g(x):\n    launch("f_sum")\n'
    sources = [alignment.cuda_pieces(cu, tmp_path / "k.cu"), alignment.python_pieces(py, tmp_path / "k.py")]
    aligned = alignment.align(["f", "g"], sources)
    assert aligned.idea.startswith("Idea.")
    assert [piece.defines for piece in aligned.rows["g"]] == [{"f_sum"}, {"g"}], "though its name begins with f"
    assert [piece.defines for piece in aligned.rows["f"]] == [{"f_rows"}, {"f"}]


def test_lessons_and_kernels_lead_to_each_other():
    titles = {script.stem: claims.title(script) for script in SCRIPTS}
    assert kernel_pages.LESSONS.keys() <= titles.keys()
    for lesson, names in kernel_pages.LESSONS.items():
        for name in names:
            assert name in NAMES, f"{lesson}: there is no kernel {name}"
            assert f"../lessons/{lesson}.md" in kernel_pages.kernel_page(ROOT, name, titles)
            assert f"../kernels/{name}.md" in kernel_pages.for_lesson(lesson, ROOT)


def test_a_piece_of_a_kernel_that_a_lesson_shows_leads_to_its_row():
    from lessons.excerpts import excerpt

    def place(*about):
        head, _, text = excerpt(*about).strip("\n").partition("\n")
        return kernel_pages.place(ROOT, head.removeprefix("--- ").partition(",")[0], text)

    assert place("cpu/softmax.py", "def _softmax(", "@kernel") == "../kernels/softmax.md#softmax"
    assert place("gpu/softmax.cu", 'extern "C" __global__ void softmax_backward', "}").endswith("#softmax-backward")
    assert kernel_pages.place(ROOT, "kernels/cpu/softmax.py", "import numpy") == "../kernels/softmax.md"


# ----------------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize("part", api_pages.PARTS, ids=[part.file for part in api_pages.PARTS])
def test_every_public_name_has_an_example(part):
    names = part.names()
    assert names
    assert names.keys() - part.examples.keys() == set(), (
        f"docs/api_examples.py has no example for these of {part.title}"
    )
    assert part.examples.keys() - names.keys() == set(), f"docs/api_examples.py: these are not in {part.title}"
    for name, example in part.examples.items():
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", example), f"the example of {name} does not show it"


@pytest.mark.parametrize("part", api_pages.PARTS, ids=[part.file for part in api_pages.PARTS])
def test_every_example_runs(part):
    with kernels.use("numpy"):
        page = api_pages.part_page(part)
    assert page.count("\n## ") == len(part.examples)
    assert " object at 0x" not in page, "an address says nothing, and changes with each book"


def test_a_broken_example_is_noticed():
    with pytest.raises(AttributeError):
        api_pages.run("F.softmin(x)")
    assert api_pages.run("1 + 1\nNone\ny = 3\n'a'") == "2\na"


# ------------------------------------------------------------------------------------------------- From PyTorch


def test_from_pytorch_names_what_there_is():
    import importlib

    for _, ours, _ in torch_page.SIDE_BY_SIDE:
        for name in re.findall(r"`((?:autograd|minitransformer|kernels)(?:\.\w+)*)", ours):
            module, _, attribute = name.rpartition(".")
            found = (
                importlib.util.find_spec(name) if not module else hasattr(importlib.import_module(module), attribute)
            )
            assert found or importlib.util.find_spec(name), name
    assert "`x.topk`" in torch_page.page()


def test_the_loop_of_the_page_learns(capsys):
    assert f"\n{torch_page.THERE}```\n" in torch_page.page() and f"\n{torch_page.HERE}```\n" in torch_page.page()
    assert len(torch_page.THERE.splitlines()) == len(torch_page.HERE.splitlines()), "line beside line"
    with kernels.use("numpy"):
        exec(torch_page.HERE.replace("range(50)", "range(1)"), {"__name__": "page"})
        exec(torch_page.HERE, {"__name__": "page"})
    first, last = map(float, capsys.readouterr().out.split())
    # a uniform guess costs log 256 = 5.5, one among the 8 letters of the text log 8 = 2.1
    assert first > 5 and last < 1


@pytest.mark.oracle
def test_both_loops_of_the_page_compute_the_same(capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed: make test-oracles installs it")
    there, here = {"__name__": "there"}, {"__name__": "here"}
    parts = [
        (names, loop.partition("optimizer = ")) for names, loop in ((there, torch_page.THERE), (here, torch_page.HERE))
    ]
    for names, (begin, _, _) in parts:
        exec(begin, names)
    weights = here["model"].state_dict()
    there["model"].load_state_dict({name: there["torch"].tensor(array) for name, array in weights.items()})
    for names, (_, mark, rest) in parts:
        exec(mark + rest.replace("range(50)", "range(3)"), names)
    one, other = map(float, capsys.readouterr().out.split())
    # float32: each of the three losses, near 5, is rounded at the seventh digit, and so is what Adam made of it
    assert abs(one - other) < 1e-5 * abs(one)


def test_what_pytorch_calls_alike_and_computes_otherwise_is_as_the_page_says():
    x = Tensor(np.arange(12.0).reshape(3, 4))
    assert [piece.shape for piece in F.split(x, 2, 1)] == [(3, 2), (3, 2)]
    assert x.var().item() == np.var(x.numpy()) and x.var(correction=1).item() == np.var(x.numpy(), ddof=1)
    assert x.max(axis=1).numpy().tolist() == [3, 7, 11] and x.argmax(axis=1).numpy().tolist() == [3, 3, 3]
    ids = np.argsort(-x.numpy(), axis=-1)[..., :2]
    assert np.take_along_axis(x.numpy(), ids, -1).tolist() == x[np.arange(3)[:, None], ids].numpy().tolist()
    table = Tensor(np.ones(4))
    assert F.layer_norm(x, table, table).shape == F.embedding(x, [0, 1, 2]).shape == (3, 4)
    assert F.cross_entropy(x, [0, 1, 2], 2).item() == F.cross_entropy(x[:2], [0, 1]).item()


# ------------------------------------------------------------------------------------------------------- answers

TWO_QUESTIONS = (
    "# %% [markdown]\n# ## Questions to think about\n# 1. Why\n#    so?\n# 2. How?\n#\n# ## Further reading\n"
)


def test_an_answer_stands_below_its_question(tmp_path):
    script = tmp_path / "03_sky.py"
    script.write_text(TWO_QUESTIONS)
    made = answer_pages.page("# Answers\n\n## 3. Sky\n\n1. Light\n   scatters.\n2. Well.\n", [script])
    assert "1. Why so?\n\n   **Answer.** Light scatters.\n\n2. How?\n\n   **Answer.** Well.\n" in made
    with pytest.raises(ValueError, match="2 questions, and docs/answers.md 1 answers"):
        answer_pages.page("# Answers\n\n## 3. Sky\n\n1. Light.\n", [script])
    with pytest.raises(ValueError, match="no section for lessons 3"):
        answer_pages.page("# Answers\n", [script])


def test_every_question_of_the_lessons_has_its_answer():
    scripts = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
    made = answer_pages.page((ROOT / "docs" / "answers.md").read_text(encoding="utf-8"), scripts)
    assert made.count("**Answer.**") >= 4 * len(scripts)


def test_a_book_without_solutions_has_no_answers():
    pages = {
        "index.md": "[a\ncourse](teaching.md#class-2)\nteaching\nanswers\nranks\n",
        "answers.md": "1. 42",
        "teaching.md": "Usual answer: 41. In fact: [42](answers.md)",
        "ranks.md": "[Answers](answers.md) are",
    }
    assert answer_pages.without(pages) == {
        "index.md": "a\ncourse (`docs/teaching.md`)\nranks\n",
        "ranks.md": "Answers (`docs/answers.md`) are",
    }


# ---------------------------------------------------------------------------------- notebooks, figures, front page


def test_a_notebook_has_the_cells_of_its_lesson():
    source = '# %% [markdown]\n# # 1. Sky\n\n# %% tags=["plumbing"]\nimport math\n\n# %%\nx = 1\n'
    made = notebooks.notebook(source, "01_sky")
    kinds = [(cell["cell_type"], cell["source"].splitlines()[0]) for cell in made["cells"]]
    assert kinds[0] == ("markdown", "# 1. Sky") and kinds[1][0] == "markdown"  # which says how to run it
    assert kinds[2:] == [
        ("code", '__file__ = "01_sky.py"'),
        ("code", "import math"),
        ("code", "x = 1"),
    ]
    assert [cell["metadata"].get("tags") for cell in made["cells"][3:]] == [["plumbing"], None]
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])


def test_a_notebook_folds_its_trials():
    source = '# %%\nx = 1\n\n# %%\n@lesson.trial("sky")\ndef sky(trial):\n    pass\n'
    plain, trial = (cell["metadata"] for cell in notebooks.notebook(source, "01_sky")["cells"][2:])
    assert plain == {} and trial == {"tags": ["trial"], "jupyter": {"source_hidden": True}}


def test_no_badge_leads_nowhere(monkeypatch):
    assert "colab" not in notebooks.links("01_sky") + notebooks.as_json("x = 1\n", "01_sky")
    monkeypatch.setattr(notebooks, "GITHUB", "some/where")
    assert "colab.research.google.com/github/some/where/blob/" in notebooks.links("01_sky")
    assert "git clone" in notebooks.as_json("x = 1\n", "01_sky")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["02_attention", "06_heads"])
def test_a_lesson_runs_as_a_notebook(name):
    """Headless, with its figures inline and every claim tried."""
    import nbformat

    source = (ROOT / "lessons" / f"{name}.py").read_text(encoding="utf-8")
    book = nbformat.reads(notebooks.executed(name), as_version=4)
    nbformat.validate(book)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    images = [output for output in outputs if {"image/png", "image/svg+xml"} & output.get("data", {}).keys()]
    shown = source.count("lesson.show(") + source.count("trial.show(")
    assert len(images) == shown > 0
    printed = "".join(output.get("text", "") for output in outputs)
    for claim in re.findall(r'lesson\.trial\(\s*"([\w-]+)"', source):
        assert claim in printed
    assert "FAILED" not in printed


@pytest.mark.parametrize("path", sorted(notebooks.READ.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_to_read_is_of_the_present_lesson(path):
    """It was run once and is kept with its results; python docs/notebooks.py NAME makes it anew."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    source = (ROOT / "lessons" / f"{path.stem}.py").read_text(encoding="utf-8")
    assert [cell["source"] for cell in kept["cells"]] == [
        cell["source"] for cell in notebooks.notebook(source, path.stem)["cells"]
    ]
    assert any("image/png" in output.get("data", {}) for cell in kept["cells"] for output in cell.get("outputs", ()))


def test_the_pack_of_figures_has_their_captions(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_pages.claims, "FOLDER", tmp_path)
    for name in ("01_a.png", "01_a.svg", "01_b.png"):
        (tmp_path / name).write_bytes(b"picture")
    claim = {"events": [{"check": "x"}, {"figure": "01_b.png", "caption": "Clouds."}]}
    output = [[1, "words"], [2, {"figure": "01_a.png", "caption": "The sky."}]]
    record = {"lesson": "01_sky", "title": "Sky", "output": output, "claims": [claim]}
    assert figure_pages.pack([record], tmp_path / "pack.zip") == 2
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        assert pack.namelist() == [f"figures/{name}" for name in ("CAPTIONS.txt", "01_a.png", "01_a.svg", "01_b.png")]
        assert "Clouds." in pack.read("figures/CAPTIONS.txt").decode()
    assert r"The sky\." in figure_pages.page([record])


def test_the_paths_of_the_front_page_lead_to_lessons():
    numbers = {int(script.stem[:2]) for script in SCRIPTS}
    for title, _, evenings in front_pages.PATHS:
        assert {n for evening in evenings for n in evening} <= numbers, title
    assert {n for evening in front_pages.PATHS[-1][2] for n in evening} == numbers, "the longest path is the whole book"
    assert {lesson for *_, lesson in front_pages.PICTURES} <= {script.stem for script in SCRIPTS}


def test_the_groups_of_the_sidebar_are_those_of_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\*\*([\w ]+)\*\*\n\n(\d+)\. \[", text, re.MULTILINE)
    assert [(title, int(first)) for title, first in listed] == list(front_pages.GROUPS)
    trees = re.findall(r":caption: (.+)\n\n((?:lessons/\w+\n)+)", front_pages.contents(SCRIPTS))
    assert [title for title, _ in trees] == [title for title, _ in front_pages.GROUPS]
    assert [line for _, lines in trees for line in lines.split()] == [f"lessons/{script.stem}" for script in SCRIPTS]


def test_numbers_in_a_row_are_said_shortly():
    assert front_pages.spans([1, 2, 3, 4, 6, 8, 9, 13]) == "1 to 4, 6, 8, 9 and 13"
    assert front_pages.spans([2]) == "2"


def test_an_exercise_of_ones_own_is_a_page_and_teachers_find_it():
    teaching = pages.without_sources((ROOT / "docs" / "teaching.md").read_text(encoding="utf-8"))
    assert teaching.count("](own_exercise.md)") == 2 and "CONTRIBUTING" not in teaching
    page = pages.own_exercise((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert page.startswith("# An exercise of your own\n") and "\n## " not in page
    assert "row_means.toml" in page and "--more FOLDER" in page
    assert "\nown_exercise\n" in front_pages.contents(SCRIPTS)


def test_the_course_has_a_class_for_each_lesson_and_exercises_that_exist():
    from lessons.exercises import catalogue

    text = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert f"(../lessons/{script.name})" in text
        (control,) = re.findall(rf"^\| {int(script.stem[:2])} \| `([\w-]+)` \|", text, re.MULTILINE)
        prose = script.read_text(encoding="utf-8").replace("\n# ", " ")  # a line may end between the two words
        assert f"--break {control}" in prose, "a control that the lesson itself names"
    known = {one.name for one in catalogue.ours()}
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| \[\d", line)]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row[5])}
    assert named and named <= known, named - known


def test_links_to_sources_become_their_names():
    text = "[how](word_sample.py), [a page](other.md), [two](../lessons/02_attention.py)"
    shown = "how (`word_sample.py`), [a page](other.md), [two](lessons/02_attention.md)"
    assert pages.without_sources(text) == shown


def test_links_of_pages_that_are_read_outside_of_the_book_lead_somewhere():
    for file in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        page, text = file.relative_to(ROOT), file.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(((?!http|#)[^)#]+)", text):
            assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def test_prose_flows_and_columns_stay():
    long = "word " * 18
    text = f"{long.strip()}\nand on.\n\nname   what it is\nother  what that is\n  indented"
    assert cells.unwrapped(text) == f"{long.strip()} and on.\n\nname   what it is\nother  what that is\n  indented"


def test_the_readme_has_every_lesson_in_order():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\d+\. \[(.+)\]\((lessons/\d\d_\w+\.py)\)", text, re.MULTILINE)
    assert listed == [(claims.title(script), f"lessons/{script.name}") for script in SCRIPTS]


# ------------------------------------------------------------------------------------- glossary, further reading


def test_a_word_is_linked_where_it_is_first_met(tmp_path, monkeypatch):
    (tmp_path / "glossary.md").write_text("- **kernel**: a function.\n- **float32, float64**: numbers.\n- **key**: .\n")
    monkeypatch.setattr(words, "GLOSSARY", tmp_path / "glossary.md")
    link = words.Linker()
    assert link("# A kernel\n`kernel` [kernel](x) $kernel$ *kernels*, kernel") == (
        "# A kernel\n`kernel` [kernel](x) $kernel$ *{term}`kernels <kernel>`*, kernel"
    )
    assert link("A kernel of float64, a key") == "A kernel of {term}`float64 <float64>`, a key"
    text = "# Words\n\n- **float32, float64**: numbers\n  for *kernels*.\n- **key**: k.\n\nEnd"
    entries = "float32\nfloat64\n  numbers for {term}`kernels <kernel>`.\n\nkey\n  k."
    assert words.page(text) == f"# Words\n\n```{{glossary}}\n{entries}\n```\n\nEnd"


def test_words_in_italics_have_an_entry_and_none_has_two():
    text = words.GLOSSARY.read_text(encoding="utf-8").partition("## Text and models")[2]
    known = words.entries()
    assert len(known) == sum(len(names.split(", ")) for names in re.findall(r"^- \*\*(.+?)\*\*", text, re.M))
    for name in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", text):
        name = " ".join(name.split()).lower()
        assert {name, name.removesuffix("s"), name.removesuffix("es")} & {*known}, name


def prose_of(script):
    return "\n\n".join(cell.text for cell in cells.split(script.read_text(encoding="utf-8")) if cell.markdown)


def test_every_work_that_a_lesson_recommends_has_an_address():
    named = [reading.key(title) for script in SCRIPTS for title in reading.titles(prose_of(script))]
    assert len(named) >= 3 * len(SCRIPTS)
    assert {*named} == reading.ADDRESSES.keys()
    assert [title for title, address in reading.ADDRESSES.items() if not address] == [
        "a new algorithm for data compression"
    ]


def test_titles_are_linked_under_further_reading_only():
    text = "*BERT* here\n## Further reading\n- A, *BERT: x\n  y* (2019): *good*.\n## Exercises\n*BERT*"
    address = reading.ADDRESSES["bert"]
    assert reading.linked(text) == text.replace("*BERT: x\n  y*", f"[*BERT: x\n  y*]({address})")
    assert address in reading.page([ROOT / "lessons" / "12_bert.py"])

"""Python in prose is run as it stands; and the helper that does so notices what is wrong with it."""

import traceback
from pathlib import Path

import pytest
from snippets import run_snippets, snippets

import kernels

ROOT = Path(__file__).parents[1]
FLOORS = ["kernels", "autograd", "minitransformer", "lessons"]
TRAINING = "minitransformer/app/training/__init__.py"
FILES = [*ROOT.glob("*.md"), *(file for floor in FLOORS for file in (ROOT / floor).rglob("*.py"))]
PAGES = sorted(str(file.relative_to(ROOT)) for file in FILES if snippets(file))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of them write files
    with kernels.use("numpy"):
        run_snippets(ROOT / page)


def test_the_pages_that_people_read_first_are_among_them():
    assert {"README.md", "CONTRIBUTING.md", TRAINING} <= {*PAGES}


def test_training_in_fourteen_lines(tmp_path, capsys):
    plain = snippets(ROOT / TRAINING)[0].code
    assert len([line for line in plain.splitlines() if line]) == 14
    assert "minitransformer.app" not in plain
    with kernels.use("numpy"):
        run_snippets(page(tmp_path, f"```python\n{plain}```\n"))
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 100
    # a uniform guess costs log 256 = 5.5, one that knows how often each letter comes 2.4, and the one before it 1.0
    assert losses[0] > 5 and losses[-1] < 0.5


def test_the_readme_shows_the_same_fourteen_lines():
    assert snippets(ROOT / TRAINING)[0].code in [snippet.code for snippet in snippets(ROOT / "README.md")]


def page(folder, text):
    (folder / "page.md").write_text(text)
    return folder / "page.md"


def test_blocks_share_their_names_and_other_languages_are_left_alone(tmp_path):
    text = "```python\na = 1\n```\nprose\n```bash\nexit 1\n```\n    ```python\n    if a:\n        a += 1\n    ```\n"
    assert snippets(page(tmp_path, text))[1] == (9, "if a:\n    a += 1\n")
    assert run_snippets(tmp_path / "page.md")["a"] == 2


def test_a_broken_block_fails_at_its_line(tmp_path):
    for code, kind in (("from minitransformer import gone", ImportError), ("1 +", SyntaxError), ("b", NameError)):
        with pytest.raises(kind) as error:
            run_snippets(page(tmp_path, f"prose\n```python\na = 1\n```\n```python\n\n{code}\n```\n"))
        assert 'page.md", line 7' in "".join(traceback.format_exception(error.value))


def test_a_page_without_blocks_fails(tmp_path):
    with pytest.raises(AssertionError, match="no block fenced"):
        run_snippets(page(tmp_path, "```text\nno Python\n```\n"))

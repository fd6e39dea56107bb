"""The page of the results says what the records say."""

import json
import re

import pytest

from lessons.results import page
from minitransformer.errors import UserError

TEXT = (page.FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_table_is_that_of_its_record():
    assert page.filled(TEXT) == TEXT, "a record has changed: run python -m lessons.results.page"


def test_every_figure_and_record_is_there_and_none_is_forgotten():
    shown = set(re.findall(r"\]\((\w+\.png)\)", TEXT))
    assert shown == {path.name for path in page.FOLDER.glob("*.png")}
    assert {path.stem for path in page.FOLDER.glob("*.json")} == {
        page.TABLES[name][0] for _, name, _, _ in page.PLACE.findall(TEXT)
    }


def test_a_table_is_put_where_the_page_asks_for_it(tmp_path):
    curve = {"tokens": [1e6, 5.2e6], "perplexity": [300.0, 99.6]}
    summary = {"command": "minitransformer pretrain x", "curve": curve, "cpu_minutes": [1.0, 98.4]}
    (tmp_path / "pretraining.json").write_text(json.dumps({"runs": {"a | b": summary}}))
    text = "before\n<!-- pretraining -->\nold\n<!-- end -->\n\n<!-- pretraining commands -->\n<!-- end -->\nafter\n"
    filled = page.filled(text, tmp_path)
    assert "old" not in filled and "| a   b | 5.2 M | 98 | 100 |\n<!-- end -->" in filled
    assert filled.startswith("before\n") and "```\nminitransformer pretrain x\n```\n" in filled
    assert page.filled(filled, tmp_path) == filled


def test_a_table_that_nobody_knows_is_named(tmp_path):
    with pytest.raises(UserError, match="asks for a table 'nothing'; there are: same curve"):
        page.filled("<!-- nothing -->\n<!-- end -->", tmp_path)

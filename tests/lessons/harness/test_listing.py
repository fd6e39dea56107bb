"""`minitransformer claims`: the record as a table or as JSON, and records that are broken."""

import json

import pytest

from lessons.harness import claims
from minitransformer.app.cli.main import main


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"claims": []}', '{"lessons": [], "claims": [{"claim": "sky"}], "controls": {}}',
     '{"lessons": [], "claims": [7], "controls": {}}', '{"lessons": [{}], "claims": [], "controls": {}}'],
)  # fmt: skip
def test_a_broken_record_is_named_with_a_remedy(school, capsys, text):
    (school / "build").mkdir()
    (school / "build" / "claims.json").write_text(text)
    assert main(["claims"]) == 2
    said = capsys.readouterr().err
    assert "build/claims.json is" in said and "run minitransformer lessons again" in said and said.count("\n") == 1


def test_claims_as_json_are_the_record(school, write_lesson, capsys, a_claim):
    record = {"lessons": [], "claims": [a_claim()], "controls": {"caught": 2, "of": 2}}
    claims.write_json(claims.CLAIMS, record)
    assert main(["claims", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_a_poor_terminal_shows_what_it_can(school, python, a_claim):
    claim = a_claim() | {"evidence": "4 n d² operations"}
    claims.write_json(claims.CLAIMS, {"lessons": [], "claims": [claim], "controls": {}})
    result = python("-m", "minitransformer", "claims", cwd=school, PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and "4 n d? operations" in result.stdout

"""Claims on the terminal: in words while they are tried, and in a table that fits."""

import pytest

from lessons.harness.terminal import Progress, claims_table, summary


@pytest.mark.parametrize("width", [40, 70, 90, 140])
def test_the_table_fits_the_terminal(width, a_claim):
    text = claims_table([a_claim(), a_claim("a-rather-long-name", "FAILED", (True, False))], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert words.count("3 of 3 looks") == 2 and "2/2" in words and "1/2" in words


def test_the_score_says_100_percent_of_all_only(a_claim):
    assert summary([a_claim()]).endswith("controls caught: 2 of 2 (100 %)")
    assert summary([a_claim(caught=[True] * 999 + [False])]).endswith("controls caught: 999 of 1000 (99 %)")
    assert "1 proved, 1 FAILED" in summary([a_claim(), a_claim(verdict="FAILED")])


TRIED = """
race: left out, because the emulator cannot be used here

sky-blue: The sky is blue wherever one looks, by day and in good weather, and grey or black otherwise.
  ok      3 of 3 looks
          a note
  PROVED: in 3 of 3 looks it is blue, and in none of them anything else could be seen by anyone
  control  repainted (somebody painted the sky): it is red
  MISSED   night (it is dark): every check still passes

sea-deep: The sea is deep.
  FAILED  it is 3 m deep
  FAILED: it is 3 m deep
"""


@pytest.mark.parametrize("width", [40, 70, 200])
def test_what_is_tried_is_told_in_words(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    progress = Progress("[1/2] 01_sky", "Sky and sea")
    for line in TRIED.splitlines()[1:]:
        progress.line(line)
    progress.end("FAILED")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    told = " ".join(" ".join(lines).split())
    assert told.startswith(
        "[1/2] 01_sky: Sky and sea "
        "sky-blue: The sky is blue wherever one looks, by day and in good weather, and grey or black otherwise. "
        "proved: in 3 of 3 looks it is blue, and in none of them anything else could be seen by anyone "
        "NOT caught: night (it is dark): every check still passes "
        "broken engines caught: 1 of 2 "
        "sea-deep: The sea is deep. "
        "FAILED: it is 3 m deep "
        "[1/2] 01_sky: FAILED, "
    )

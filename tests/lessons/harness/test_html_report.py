"""The report as a page that stands alone."""

from lessons.harness import html_report


def test_the_report_stands_alone_and_escapes_what_it_quotes(a_claim):
    lesson = {"lesson": "01_tiny", "title": "Sky & sea", "finished": True, "claims": [a_claim()], "output": []}
    html = html_report.page([lesson])
    assert "The sky is &lt;blue&gt; &amp; wide." in html and "a &lt; b" in html and "1. Sky &amp; sea</h2>" in html
    assert '<img src="lessons/01_sky.png" alt="the sky"' in html and "2 of 2 broken engines were caught" in html
    assert "http" not in html and "<script" not in html and "Not finished" not in html and "Failed" not in html
    assert "Not finished: 01_tiny" in html_report.page([lesson | {"finished": False}])
    assert "Failed: 01_tiny" in html_report.page([lesson | {"claims": [a_claim(caught=[False])]}])


def test_a_figure_outside_of_a_trial_stands_where_the_script_shows_it(a_claim):
    shown = [[line, {"figure": f"01_{name}.png", "caption": name}] for line, name in ((2, "dawn"), (4, "dusk"))]
    lesson = {"lesson": "01_tiny", "title": "Sky", "finished": True, "claims": [a_claim()]}  # the claim is in line 3
    html = html_report.page([lesson | {"output": [[1, "printed\n"], *shown]}])
    order = [html.index(part) for part in ("01_dawn.png", 'id="sky"', "01_dusk.png")]
    assert order == sorted(order)

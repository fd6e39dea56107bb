"""The report as a page that stands alone."""

from lessons.harness import html_report


def test_the_report_stands_alone_and_escapes_what_it_quotes(a_claim):
    lesson = {"lesson": "01_tiny", "title": "Sky & sea", "finished": True, "claims": [a_claim()]}
    html = html_report.page([lesson])
    assert "The sky is &lt;blue&gt; &amp; wide." in html and "a &lt; b" in html and "1. Sky &amp; sea" in html
    assert '<img src="lessons/01_sky.png" alt="the sky"' in html and "2 of 2 broken engines were caught" in html
    assert "http" not in html and "<script" not in html and "Not finished" not in html and "Failed" not in html
    assert "Not finished: 01_tiny" in html_report.page([lesson | {"finished": False}])
    assert "Failed: 01_tiny" in html_report.page([lesson | {"claims": [a_claim(caught=[False])]}])

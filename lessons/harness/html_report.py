"""What the lessons found, as one HTML page for whoever has run them and not built the book: verdicts, evidence and
figures. No script, no network, readable on a phone."""

from html import escape
from pathlib import Path
from typing import Any

from lessons.harness.claims import VERDICTS, score, sound, state

STYLE = """
:root { color-scheme: light dark; --line: #d5d5d5; --soft: #f5f5f3; --text: #1b1b1b; --page: #fff;
  --proved: #00694e; --sharpened: #8a5a00; --refuted: #00568a; --failed: #b00020; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #242424; --text: #e8e8e8; --page: #171717;
  --proved: #4fd1a5; --sharpened: #f0b429; --refuted: #6cb8f0; --failed: #ff7a85; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 52rem;
  margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th, td { overflow-wrap: normal; } a { color: inherit; }
article { border: 1px solid var(--line); border-left: 5px solid var(--tone); border-radius: 4px;
  padding: .2rem 1rem .8rem; margin: 1.2rem 0; }
article h3 { margin: .6rem 0 .2rem; font-size: 1.05rem; } .verdict { color: var(--tone); font-weight: 700; }
.proved { --tone: var(--proved); } .sharpened { --tone: var(--sharpened); } .refuted { --tone: var(--refuted); }
.failed { --tone: var(--failed); }
code { font-size: .85em; } article p code { opacity: .6; }
summary { cursor: pointer; } ul { padding-left: 1.2rem; margin: .4rem 0; }
pre { background: var(--soft); padding: .6rem; overflow-x: auto; overflow-wrap: normal; font-size: .82rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; } figcaption { font-size: .9rem; }
td.lesson { font-weight: 700; padding-top: 1rem; }
@media (max-width: 34rem) { article { padding: .2rem .7rem .6rem; } }
"""


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """Writes the page of all lessons' records; figures are looked for in lessons/ beside it."""
    path.write_text(page(records), encoding="utf-8")


def page(records: list[dict[str, Any]]) -> str:
    claims = [claim for record in records for claim in record["claims"]]
    caught, of = score(claims)
    counts = ", ".join(f"{sum(c['verdict'] == v for c in claims)} {v}" for v in VERDICTS)
    lessons = {wrong: [r["lesson"] for r in records if state(r) == wrong] for wrong in ("failed", "not finished")}
    warning = "".join(
        f'<p class="failed verdict">{wrong.capitalize()}: {escape(", ".join(names))}</p>'
        for wrong, names in lessons.items()
        if names
    )
    warning += "".join(f"<p>Left out: {escape(r['lesson'])}</p>" for r in records if state(r) == "left out")
    rows = "".join(_rows(record) for record in records if record["claims"])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the lessons found</title><style>{STYLE}</style></head><body>
<h1>What the lessons found</h1>
<p>The verdicts and figures of the last run on this machine. To read the lessons themselves, open the scripts in
<code>lessons/</code>, or let <code>make book</code> print them as a book, <code>build/book/index.html</code>.</p>
<p>{len(claims)} claims: {counts}. Each was tried on the sound engine, then on deliberately broken ones, under which a
check has to fail: <strong>{caught} of {of} broken engines were caught.</strong></p>{warning}
<table><thead><tr><th>claim</th><th>verdict</th><th>controls caught</th></tr></thead><tbody>{rows}</tbody></table>
{"".join(_lesson(record) for record in records)}
</body></html>
"""


def _rows(record: dict[str, Any]) -> str:
    link = f'<a href="#{record["lesson"]}">{escape(_heading(record))}</a>'
    rows = f'<tr><td class="lesson" colspan="3">{link}</td></tr>'
    for claim in record["claims"]:
        caught, of = score([claim])
        rows += (
            f'<tr><td><a href="#{escape(claim["claim"])}">{escape(claim["statement"])}</a></td>'
            f'<td class="verdict {_tone(claim)}">{escape(claim["verdict"])}</td><td>{caught} of {of}</td></tr>'
        )
    return rows


def _heading(record: dict[str, Any]) -> str:
    return f"{record['lesson'].partition('_')[0].lstrip('0')}. {record['title']}"


def _tone(claim: dict[str, Any]) -> str:
    return claim["verdict"] if sound(claim) else "failed"


def _lesson(record: dict[str, Any]) -> str:
    unfinished = "" if record["finished"] else '<p class="failed verdict">This lesson did not come to its end.</p>'
    if state(record) == "left out":
        unfinished = f"<p>Left out: {escape(record['left_out'])}.</p>"
    parts = [(claim["line"], _claim(claim)) for claim in record["claims"]]
    parts += [(line, _event(part)) for line, part in record["output"] if isinstance(part, dict)]
    body = "".join(text for _, text in sorted(parts, key=lambda part: part[0]))  # as they stand in the script
    return f'<h2 id="{record["lesson"]}">{escape(_heading(record))}</h2>{unfinished}{body}'


def _claim(claim: dict[str, Any]) -> str:
    caught, of = score([claim])
    events = "".join(map(_event, claim["events"]))
    controls = "".join(
        f"<li><strong>{escape(c['control'])}</strong> ({escape(c['what'])}): "
        f"{'caught by' if c['caught'] else '<strong>not caught</strong>:'} {escape(c['by'])}</li>"
        for c in claim["controls"]
    )
    return f"""<article class="{_tone(claim)}" id="{escape(claim["claim"])}">
<h3>{escape(claim["statement"])}</h3>
<p><span class="verdict">{escape(claim["verdict"])}</span>: {escape(claim["evidence"])}
<code>{escape(claim["claim"])}</code></p>
{_checks(claim)}{events}
<details><summary>Broken engines caught: {caught} of {of}</summary><ul>{controls}</ul></details></article>
"""


def _checks(claim: dict[str, Any]) -> str:
    checks = "".join(f"<li>{escape(text)}</li>" for text in claim["checks"])
    return f"<details><summary>Checks that held: {len(claim['checks'])}</summary><ul>{checks}</ul></details>"


def _event(event: dict[str, str]) -> str:
    """Notes and figures in their order; checks stand in a list of their own."""
    if "note" in event:
        return f"<pre>{escape(event['note'])}</pre>"
    if "figure" in event:
        caption = escape(event["caption"])
        image = f'<img src="lessons/{escape(event["figure"])}" alt="{caption}" loading="lazy">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    return ""

"""From finished runs to a record in JSON and figures: the command line that the reports of this folder share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons.results.record_files import load_record, rounded, save_record
from lessons.results.runs import Run, add_places
from minitransformer.app.cli.main import orderly
from minitransformer.errors import UserError

# the folders of data and runs, and the record there was → what is to be told
Gather = Callable[[Mapping[str, str], Mapping[str, Any]], dict[str, Any]]
Draw = Callable[[Mapping[str, Any], Path], list[Path]]  # that record → figures, in this folder
Tell = Callable[[Mapping[str, Any]], None]  # that record → lines on the screen


def script(
    name: str, description: str | None, gather: Gather, draw: Draw, tell: Tell, arguments: Sequence[str] | None
) -> int:
    """name: of the record, name.json. Without --draw it is gathered from the runs; then it is drawn and told."""
    parser = argparse.ArgumentParser(
        prog=name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="only draw the figures again, from the record")
    help = "of the record and the figures (default: beside this script)"
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path(__file__).parent, help=help)
    add_places(parser)
    options = parser.parse_args(arguments)

    def work() -> int:
        path = options.out / f"{name}.json"
        if not options.draw:
            record = gather({"data": options.data, "runs": options.runs}, load_record(path) if path.exists() else {})
            options.out.mkdir(parents=True, exist_ok=True)
            save_record(rounded(record), path)
        record = load_record(path)
        drawn = draw(record, options.out)  # before a reader of the lines (head) can have seen enough
        tell(record)
        print("drawn:", *drawn)
        return 0

    return orderly(name, work)


def summaries(
    runs: Mapping[str, Sequence[Run]],
    summarize: Callable[[Sequence[Run], Mapping[str, str]], dict[str, Any]],
    places: Mapping[str, str],
    former: Mapping[str, Any],
) -> dict[str, Any]:
    """Of each group, what its runs that came to their end say; where none did, what the former record told of it, for
    trained models are large and may be gone while their figures stay."""
    done = {name: [run for run in group if run.done(places)] for name, group in runs.items()}
    found = {name: summarize(group, places) if group else former.get(name) for name, group in done.items()}
    return {name: summary for name, summary in found.items() if summary}


def require_any(found: dict[str, Any], experiment: str) -> dict[str, Any]:
    """What was found, if it is anything at all."""
    if not found:
        raise UserError(f"nothing is trained yet: python -m lessons.results.runs {experiment}")
    return found

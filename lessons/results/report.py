"""From finished runs to a record in JSON and figures: the command line that the reports of this folder share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons.results.figures import load_record, rounded, save_record
from lessons.results.runs import Run, add_places, note_of
from minitransformer.cli import orderly

Gather = Callable[[Mapping[str, str]], dict[str, Any]]  # the folders of data and runs → what is to be told
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
            record = gather({"data": options.data, "runs": options.runs})
            options.out.mkdir(parents=True, exist_ok=True)
            save_record(rounded(record), path)
        record = load_record(path)
        drawn = draw(record, options.out)  # before a reader of the lines (head) can have seen enough
        tell(record)
        print("drawn:", *drawn)
        return 0

    return orderly(name, work)


def finished(runs: Mapping[str, Run], places: Mapping[str, str]) -> dict[str, Run]:
    """Those that came to their end; if none did, an error says how to train them."""
    done = {name: run for name, run in runs.items() if run.done(places)}
    if not done:
        note_of(next(iter(runs.values())), places)
    return done

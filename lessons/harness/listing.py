"""Every claim of the lessons with its verdict, its evidence and its negative controls, from their last run.

A control is a deliberately broken engine; it is caught when the claim's checks fail on it. Exit code 1 if a claim
failed, a control was missed, or a lesson did not come to its end. A lesson that was left out, because a model that it
needs was not there, is named, and has no claims here.

examples:
  minitransformer claims
  minitransformer claims --json | python -m json.tool
"""

import argparse
import json
import sys

from lessons.harness import claims
from lessons.harness.terminal import claims_table, columns, printable, summary
from minitransformer.app.cli.namespace import JsonOptions, options_of
from minitransformer.errors import UserError

SUMMARY = "every claim of the lessons, its verdict and evidence, from their last run"
MERELY_PRINTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the whole record, as build/claims.json has it")


def run(arguments: argparse.Namespace) -> int:
    try:
        record = claims.read()
    except claims.ClaimsError as error:
        raise UserError(str(error)) from None
    if options_of(JsonOptions, arguments).json:
        print(json.dumps(record, indent=1))
    else:
        print(printable(claims_table(record["claims"], columns())))
        print("\n" + summary(record["claims"]))
    for wrong in ("failed", "not finished"):
        names = [lesson["lesson"] for lesson in record["lessons"] if lesson["state"] == wrong]
        if names:
            print(f"{wrong}: {', '.join(names)}; run minitransformer lessons {' '.join(names)}", file=sys.stderr)
    for lesson in record["lessons"]:
        if lesson["state"] == "left out":
            print(f"left out: {lesson['lesson']}: {lesson.get('left_out')}", file=sys.stderr)
    return 0 if all(lesson["state"] in ("passed", "left out") for lesson in record["lessons"]) else 1

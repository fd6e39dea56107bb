"""Every claim of the lessons with its verdict, its evidence and its negative controls, from their last run.

A control is a deliberately broken engine; it is caught when the claim's checks fail on it. Exit code 1 if a claim
failed, a control was missed, or a lesson did not come to its end.

examples:
  minitransformer claims
  minitransformer claims --json | python -m json.tool
"""

import argparse
import json
import sys

from lessons.harness import claims
from lessons.harness.verdicts import claims_table, columns, printable, summary
from minitransformer.errors import UserError

SUMMARY = "every claim of the lessons, its verdict and evidence, from their last run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the whole record, as build/claims.json has it")


def run(arguments: argparse.Namespace) -> int:
    try:
        record = claims.read()
    except claims.ClaimsError as error:
        raise UserError(str(error)) from None
    if arguments.json:
        print(json.dumps(record, indent=1))
    else:
        print(printable(claims_table(record["claims"], columns())))
        print("\n" + summary(record["claims"]))
    failed = [lesson["lesson"] for lesson in record["lessons"] if not lesson["passed"]]
    if failed:
        print(f"not sound: {', '.join(failed)}; run minitransformer lessons {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0

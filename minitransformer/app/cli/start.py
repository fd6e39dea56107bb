"""Where the command `minitransformer` begins: before NumPy or anything else of size is loaded.

Loading takes a good part of a second. On several ranks there must be someone before that who notices when one of them
is killed, see watched.py."""

import sys

from minitransformer.app import watched

TRAINING = ("pretrain", "finetune", "train-translator")  # commands that several ranks can share


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in TRAINING:
        watched.start_early()
    from minitransformer.app.cli.main import main

    return main()

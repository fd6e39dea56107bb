"""Which trainings make up which experiment."""

from __future__ import annotations

from collections.abc import Mapping

from lessons.results.runs import Run

SEEDS = range(5)

# ---------------------------------------------------------------------------------------- French novels

REVIEWS = "{data}/cls-books-fr"
WORDS = f"--dict {REVIEWS}/dict.txt --sentencepiece {REVIEWS}/sentencepiece.french.model"
HELD_OUT = "--valid {runs}/novels/valid.txt"

LAB_LM = Run("lab-lm", f"pretrain {{runs}}/novels/lab.txt {HELD_OUT} {WORDS} --preset lab", keep=True)
BETTER_LM = Run(
    "better-lm",
    f"pretrain {{runs}}/novels/train.txt {HELD_OUT} {WORDS} --width 200 --heads 4 --layers 4 --ff 800 --max-len 512 "
    "--norm-first --activation gelu --tie-weights --batch 32 --lr 1e-3 --warmup 250 --steps 2500",
    keep=True,
)
PRETRAINING = {"the labs' setting": LAB_LM, "ours, the same time": BETTER_LM}

# ------------------------------------------------------------------------------------------ 1,600 French reviews

LABELLED = f"{REVIEWS}/train.review.spm --valid {REVIEWS}/valid.review.spm"


def seeds(name: str, command: str, measured: Mapping[str, str] | None = None) -> list[Run]:
    return [Run(f"{name}-{seed}", f"{command} --seed {seed}", measured) for seed in SEEDS]


def _in_turns(groups: Mapping[str, list[Run]]) -> list[Run]:
    """The first seed of every group, then the second: what is stopped half way can be compared."""
    return [run for runs in zip(*groups.values(), strict=True) for run in runs]


LABS_RECIPE = "--preset lab --pooling last_column"
TRANSFER_LAB = {
    "pretrained": seeds("lab-pretrained", f"finetune {LABELLED} --from {{runs}}/lab-lm {LABS_RECIPE}"),
    "from scratch": seeds("lab-scratch", f"finetune {LABELLED} --scratch --dict {REVIEWS}/dict.txt {LABS_RECIPE}"),
}

TRANSFER = {"The labs' recipe": TRANSFER_LAB}

# ------------------------------------------------------------------------------------------ English film reviews

LABELS = (100, 400, 1600)


def _few(labels: int, start: str) -> str:
    return f"finetune {{runs}}/imdb/train-{labels}.tsv --valid {{runs}}/imdb/valid.tsv {start} --epochs 4"


TESTED = {"test": "evaluate {runs}/imdb/test.tsv"}
FILMS_LM = Run(
    "films-lm",
    "pretrain {runs}/imdb/unlabelled.txt --valid {runs}/imdb/valid.tsv --width 256 --heads 4 --layers 2 --ff 1024 "
    "--max-len 512 --norm-first --activation gelu --tie-weights --batch 16 --lr 1e-3 --warmup 100 --epochs 1",
    keep=True,
)

FILMS = {
    "pretrained": {n: seeds(f"films-{n}", _few(n, "--from {runs}/films-lm --pooling mean"), TESTED) for n in LABELS},
    "from scratch": {n: seeds(f"films-scratch-{n}", _few(n, "--scratch --tokenizer words"), TESTED) for n in LABELS},
}

# ------------------------------------------------------------------------------------------ English into French

PAIRS = "{data}/tatoeba-eng-fra/train.tsv --valid {data}/tatoeba-eng-fra/valid.tsv"
MEASURED = {
    "greedy": "evaluate {data}/tatoeba-eng-fra/valid.tsv",
    "beam": "evaluate {data}/tatoeba-eng-fra/valid.tsv --beam 5",
}
SMALL_TRANSLATOR = Run(
    "small-translator",
    f"train-translator {PAIRS} --width 256 --heads 4 --layers 2 --ff 512 --max-len 24 --no-norm-first --dropout 0.1 "
    "--label-smoothing 0.1 --batch 64 --lr 1e-3 --warmup 1000 --epochs 8",
    MEASURED,
    keep=True,
)
BETTER_TRANSLATOR = Run(
    "better-translator",
    f"train-translator {PAIRS} --tokenizer pieces --width 256 --heads 4 --layers 3 --ff 1024 --max-len 40 --norm-first "
    "--dropout 0.1 --label-smoothing 0.1 --tie-weights --batch 96 --lr 1e-3 --warmup 800 --steps 8000",
    MEASURED,
    keep=True,
)
TRANSLATION = {"the labs' sizes": SMALL_TRANSLATOR, "ours": BETTER_TRANSLATOR}

EXPERIMENTS = {
    "pretraining": [*PRETRAINING.values()],
    "transfer-lab": _in_turns(TRANSFER_LAB),
    "films": [FILMS_LM, *(run for by_labels in FILMS.values() for runs in by_labels.values() for run in runs)],
    "translation": [*TRANSLATION.values()],
}

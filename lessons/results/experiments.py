"""Which trainings make up which experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lessons.results.runs import Run

SEEDS = range(5)
RESEARCH = "lessons.results.train"  # whose commands know bags, samples of words and the like

# ---------------------------------------------------------------------------------------- French novels

REVIEWS = "{data}/cls-books-fr"
WORDS = f"--dict {REVIEWS}/dict.txt --sentencepiece {REVIEWS}/sentencepiece.french.model"
HELD_OUT = "--valid {runs}/novels/valid.txt"

LAB_LM = Run("lab-lm", f"pretrain {{runs}}/novels/lab.txt {HELD_OUT} {WORDS} --preset lab", keep=True)
BETTER_LM = Run(
    "better-lm",
    f"pretrain {{runs}}/novels/train.txt {HELD_OUT} {WORDS} --d-model 200 --n-heads 4 --n-layers 4 --d-ff 800 "
    "--max-len 512 --norm-first --activation gelu --tie-weights --batch 32 --lr 1e-3 --warmup 250 --steps 2500",
    keep=True,
)
SAMPLED = (
    f"pretrain {{runs}}/novels/train.txt {HELD_OUT} {WORDS} --d-model 200 --n-heads 4 --n-layers 4 --d-ff 800 "
    "--max-len 512 --norm-first --activation gelu --tie-weights --batch 32 --lr 1.5e-3 --warmup 250"
)
SAMPLED_LM = Run("sampled-lm", f"{SAMPLED} --steps 2600 --sampled-words 6000", keep=True, module=RESEARCH)
NINETY_LM = Run("ninety-lm", f"{SAMPLED} --steps 9600 --sampled-words 6000", keep=True, module=RESEARCH)
PRETRAINING = {
    "the labs' setting": LAB_LM,
    "ours, about the same time": BETTER_LM,
    "ours, scoring a sample of the words": SAMPLED_LM,
    "the same, for an hour and a half": NINETY_LM,
}

# ------------------------------------------------------------------------------------------ 1,600 French reviews

LABELLED = f"{REVIEWS}/train.review.spm --valid {REVIEWS}/valid.review.spm"


def seeds(name: str, command: str, seeds_of: Sequence[int] = SEEDS, **options: Any) -> list[Run]:
    return [Run(f"{name}-{seed}", f"{command} --seed {seed}", **options) for seed in seeds_of]


def _in_turns(groups: Mapping[str, list[Run]]) -> list[Run]:
    """The first seed of every group, then the second: what is stopped half way can be compared."""
    return [run for runs in zip(*groups.values(), strict=True) for run in runs]


LABS_RECIPE = "--preset lab --pooling last_column"
TRANSFER_LAB = {
    "pretrained": seeds("lab-pretrained", f"finetune {LABELLED} --from {{runs}}/lab-lm {LABS_RECIPE}"),
    "from scratch": seeds("lab-scratch", f"finetune {LABELLED} --scratch --dict {REVIEWS}/dict.txt {LABS_RECIPE}"),
}
TRANSFER_LONGER = {
    "pretrained, better model": seeds(
        "lab-ninety", f"finetune {LABELLED} --from {{runs}}/ninety-lm {LABS_RECIPE}", range(3)
    )
}

# ours: whole words; the texts are those of lessons/results/word_for_word.py
BOOKS = "{runs}/word-for-word"
BOOKS_SIZES = (
    "--tokenizer words --vocabulary 25000 --d-model 128 --n-heads 4 --n-layers 1 --d-ff 256 --max-len 512 --norm-first "
    "--activation gelu"
)
BOOKS_BAG = Run(
    "books-bag",
    f"pretrain {BOOKS}/texts.txt --valid {BOOKS}/valid.tsv --objective bag {BOOKS_SIZES} "
    "--batch 32 --lr 2e-3 --warmup 100 --epochs 10",
    keep=True,
    module=RESEARCH,
)
BOOKS_LABELLED = f"finetune {BOOKS}/train.tsv --valid {BOOKS}/valid.tsv"
OURS = "--pooling stream --dropout 0.2 --word-dropout 0.2 --lr 1e-3 --layer-rate 0.01"


def _ours(name: str, epochs: int) -> dict[str, list[Run]]:
    pretrained = f"{BOOKS_LABELLED} --from {{runs}}/books-bag"
    scratch = f"{BOOKS_LABELLED} --scratch {BOOKS_SIZES} --quiet-start"
    return {
        "pretrained": seeds(f"{name}-pretrained", f"{pretrained} {OURS} --epochs {epochs}", module=RESEARCH),
        "from scratch": seeds(f"{name}-scratch", f"{scratch} {OURS} --epochs {epochs}", module=RESEARCH),
    }


TRANSFER_OURS, TRANSFER_OURS_LONG = _ours("books", 5), _ours("books-long", 15)
TRANSFER = {
    "The labs' recipe": {**TRANSFER_LAB, **TRANSFER_LONGER},
    "Ours, as long": TRANSFER_OURS_LONG,
    "Ours": TRANSFER_OURS,
}
TRANSFER_BASES = {"Ours": BOOKS_BAG}  # those that the section on the novels does not show

# ------------------------------------------------------------------------------------------ English film reviews

LABELS = (100, 400, 1600)
TESTED = {"test": "evaluate {runs}/imdb/test.tsv --last"}

FILMS_LM = Run(
    "films-lm",
    "pretrain {runs}/imdb/unlabelled.txt --valid {runs}/imdb/valid.tsv --tokenizer words --vocabulary 10000 "
    "--d-model 256 --n-heads 4 --n-layers 2 --d-ff 1024 --max-len 512 --norm-first --activation gelu --tie-weights "
    "--sampled-words 2500 --batch 16 --lr 1e-3 --warmup 100 --epochs 1",
    keep=True,
    module=RESEARCH,
)
FILMS_BAG = Run(
    "films-bag",
    "pretrain {runs}/imdb/unlabelled.txt --valid {runs}/imdb/valid.tsv --objective bag --tokenizer words "
    "--vocabulary 10000 --d-model 256 --n-heads 4 --n-layers 1 --d-ff 512 --max-len 512 --norm-first --activation gelu "
    "--batch 32 --lr 1e-3 --warmup 100 --epochs 4",
    keep=True,
    module=RESEARCH,
)


def _few(name: str, start: str, rates: Sequence[str], seeds_of: Sequence[int] = range(3)) -> dict[int, list[Run]]:
    """One recipe but for the learning rate, which may depend on the number of labels."""
    common = f"--valid {{runs}}/imdb/valid.tsv {start} --pooling stream --dropout 0.2 --word-dropout 0.2 --epochs 5"
    options = {"measured": TESTED, "module": RESEARCH}
    return {
        n: seeds(f"{name}-{n}", f"finetune {{runs}}/imdb/train-{n}.tsv {common} --lr {rate}", seeds_of, **options)
        for n, rate in zip(LABELS, rates, strict=True)
    }


NEXT, BAG, NONE = "pretrained on the next word", "pretrained on bags of words", "from scratch"
FILMS_BASES = {BAG: FILMS_BAG, NEXT: FILMS_LM}
FILMS = {
    BAG: _few("films-bag", "--from {runs}/films-bag", ("3e-4", "3e-4", "3e-4")),
    NONE: _few(
        "films-scratch",
        "--scratch --tokenizer words --vocabulary 10000 --d-model 256 --n-heads 4 --n-layers 1 --d-ff 512 "
        "--max-len 512 --norm-first --activation gelu --quiet-start --layer-rate 0.01",
        ("1e-3", "1e-3", "1e-3"),
    ),
    NEXT: _few("films-next", "--from {runs}/films-lm --layer-rate 0.1", ("1e-3", "1e-3", "1e-3"), range(1)),
}

# what a model that others trained reads before it is fine-tuned (lessons/results/minilm.py)
MINILM_READ = Run(
    "minilm-read",
    "pretrain {runs}/imdb/unlabelled.txt --valid {runs}/imdb/valid.tsv --from minilm --objective masked --max-len 128 "
    "--batch 32 --lr 2e-4 --warmup 100 --epochs 3",
    keep=True,
    module=RESEARCH,
)

# ------------------------------------------------------------------------------------------ English into French

PAIRS = "{data}/tatoeba-eng-fra/train.tsv --valid {data}/tatoeba-eng-fra/valid.tsv"
MEASURED = {
    "greedy": "evaluate {data}/tatoeba-eng-fra/valid.tsv",
    "beam": "evaluate {data}/tatoeba-eng-fra/valid.tsv --beam 5",
}
SMALL_TRANSLATOR = Run(
    "small-translator",
    f"train-translator {PAIRS} --d-model 256 --n-heads 4 --n-layers 2 --d-ff 512 --max-len 24 --no-norm-first "
    "--dropout 0.1 --label-smoothing 0.1 --batch 64 --lr 1e-3 --warmup 1000 --epochs 8",
    MEASURED,
    keep=True,
)
OUR_TRANSLATOR = (
    f"train-translator {PAIRS} --tokenizer pieces --d-model 256 --n-heads 4 --n-layers 3 --d-ff 1024 --max-len 40 "
    "--norm-first --dropout 0.1 --label-smoothing 0.1 --tie-weights --batch 96 --lr 1e-3 --warmup 800"
)
BETTER_TRANSLATOR = Run("better-translator", f"{OUR_TRANSLATOR} --steps 9000", MEASURED, keep=True)
LONG_TRANSLATOR = Run("long-translator", f"{OUR_TRANSLATOR} --steps 16000", MEASURED, keep=True)
TRANSLATION = {
    "the labs' sizes": SMALL_TRANSLATOR,
    "ours": BETTER_TRANSLATOR,
    "ours, longer": LONG_TRANSLATOR,
}

EXPERIMENTS = {
    "pretraining": [*PRETRAINING.values()],
    "transfer-lab": [*_in_turns(TRANSFER_LAB), *_in_turns(TRANSFER_LONGER)],
    "transfer-ours": [BOOKS_BAG, *_in_turns(TRANSFER_OURS), *_in_turns(TRANSFER_OURS_LONG)],
    "films": [*FILMS_BASES.values(), *(run for by in FILMS.values() for runs in by.values() for run in runs)],
    "real-weights": [MINILM_READ],
    "translation": [*TRANSLATION.values()],
}

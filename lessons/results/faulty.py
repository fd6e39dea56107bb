"""The faults that reports on the translation lab show, and two more, put back one at a time: on real pairs.

  python -m lessons.results.faulty               trains the model with each fault, and draws
  python -m lessons.results.faulty --draw        draws faulty.png again, from faulty.json

Sizes and highest learning rate are the labs'. So that a short training shows what a sound model can do, the learning
rate warms up and falls again, gradients are clipped, and words are scaled by the root of the width. A fault that was
trained is remembered in runs/faulty, and not trained again.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lessons import faults
from lessons.results.record_files import environment, save_figure
from lessons.results.reporting import script
from lessons.results.translation import SENTENCES
from minitransformer.app.data import Tokenizer, TranslationBatches, WordTokenizer, read_pairs
from minitransformer.app.progress import progress_on
from minitransformer.app.tasks.measures import bleu, translation_loss, translator_loss
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.translating import encode_pairs, padded, source_ids
from minitransformer.app.training import Options, train
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.config import LAB_TRANSLATOR
from minitransformer.decoding import generate
from minitransformer.models import Translator
from minitransformer.optim import Adam, warmup_cosine

NAME = "faulty"
STEPS, WARMUP, ROWS, LR, CLIP, VOCABULARY = 1500, 150, 64, 1e-3, 1.0, 8000
SIZES = replace(LAB_TRANSLATOR, scale_embedding=True)
VALID = 500  # pairs to translate
FAULTS: dict[str, Callable[[Any], None]] = {
    "sound": faults.sound,
    "mask after softmax": faults.mask_after_softmax,
    "leaked target": faults.leaked_target,
    "trained on the source": faults.trained_on_the_source,
    "unregistered weights": faults.unregistered_weights,
    "no padding mask": faults.padding_seen,
    "no norm": faults.norm_left_out,
    "words not scaled": faults.unscaled_words,
}
SHOWN = (1, 4, 6)  # of the sentences
SIDES = {"source": "source_vocab", "target": "target_vocab"}


class Corpus(NamedTuple):
    codecs: dict[str, TextCodec]
    training: TranslationBatches
    valid: list[tuple[str, str]]


def corpus(data: str, max_len: int) -> Corpus:
    pairs, held = (read_pairs(os.path.join(data, "tatoeba-eng-fra", f"{name}.tsv")) for name in ("train", "valid"))
    source, target = (
        TextCodec(WordTokenizer.train([pair[side] for pair in pairs], max_size=VOCABULARY, lower=True))
        for side in (0, 1)
    )
    sides = encode_pairs((source, target), pairs)
    training = TranslationBatches(*sides, max_len=max_len, rows=ROWS, seed=0, drop_long=True)
    short = [pair for pair in held if max(len(source.encode(pair[0])), len(target.encode(pair[1]))) < max_len]
    every = max(1, len(short) // VALID)
    return Corpus({"source": source, "target": target}, training, short[::every][:VALID])


def trained(fault: str, given: Corpus) -> dict[str, Any]:
    """What becomes of the labs' model with this fault: its training, and its translations."""
    losses: list[float] = []

    def noted(model: Any, batch: Any) -> Any:
        loss = translation_loss(model, batch)
        losses.append(float(loss))
        return loss

    sizes = {name: given.codecs[side].tokenizer.vocab_size for side, name in SIDES.items()}
    with faults.broken(FAULTS[fault]):
        model = Translator(SIZES, **sizes)
        optimizer, schedule = Adam(model.parameters(), lr=LR), warmup_cosine(min(WARMUP, STEPS - 1), STEPS)
        options, progress = Options(max_steps=STEPS, clip=CLIP), progress_on()
        result = train(model, optimizer, given.training, noted, options, schedule=schedule, progress=progress)
        if result.interrupted:
            raise KeyboardInterrupt
        references = [french for _, french in given.valid]
        rows = _translated(model, given, [english for english, _ in given.valid])
        sides = encode_pairs((given.codecs["source"], given.codecs["target"]), given.valid)
        held = TranslationBatches(*sides, max_len=model.config.max_len, rows=ROWS, shuffle=False)
        valid = translator_loss(model, held.epoch())["loss"]
        said = _translated(model, given, [SENTENCES[number] for number in SHOWN])
    decode = given.codecs["target"].decode
    return {
        "losses": losses,
        "valid_loss": valid,
        "bleu": bleu([decode(row) for row in rows], references, lowercase=True),
        "stutter": sum(a == b for row in rows for a, b in itertools.pairwise(row)) / max(1, sum(map(len, rows))),
        "said": {SENTENCES[number]: decode(row) for number, row in zip(SHOWN, said, strict=True)},
    }


def _translated(model: Translator, given: Corpus, sentences: Sequence[str]) -> list[list[int]]:
    """Without the cache, so that a fault acts as it did in training."""
    never = (Tokenizer.sos, Tokenizer.pad, Tokenizer.oov)
    sources = [source_ids(model, given.codecs["source"], text) for text in sentences]
    found: list[list[int]] = []
    for first in range(0, len(sources), ROWS):
        batch = padded(sources[first : first + ROWS])
        found += generate(model, *batch, eos=Tokenizer.eos, suppress=never, use_cache=False)
    return found


# ---------------------------------------------------------------------------------------------------------- the figure


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt
    import numpy as np

    from lessons.harness import style

    style.apply()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), width_ratios=(1.3, 1))
    names = list(record["faults"])
    palette = [*style.COLOURS, "#1a1a1a", "#8c6d31"]
    colours = [palette[number % len(palette)] for number in range(len(names))]
    lines = zip(record["faults"].items(), colours, itertools.cycle(style.DASHES), strict=False)
    for (name, summary), colour, dashes in lines:
        reach = min(25, len(summary["losses"]))
        smooth = np.convolve(summary["losses"], np.ones(reach) / reach, "valid")
        look: dict[str, Any] = {"linewidth": 1.5}
        if name == "sound":  # others lie upon it
            look = {"linewidth": 6, "alpha": 0.4, "solid_capstyle": "butt"}
        left.plot(np.arange(reach, reach + len(smooth)), smooth, color=colour, linestyle=dashes, label=name, **look)
    left.set(xlabel="training step", ylabel="loss, nats a word", ylim=(0, None))
    left.set_title("What the training shows (mean of 25 steps)", loc="left")
    bars = right.barh(range(len(names)), [record["faults"][name]["bleu"] for name in names], color=colours)
    right.bar_label(bars, fmt="%.1f", padding=3)
    right.margins(x=0.12)
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set_xlabel(f"BLEU on {record['settings']['valid_pairs']} unseen sentences, greedy")
    right.set_title("How well it translates", loc="left")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return [save_figure(figure, folder / f"{NAME}.png")]


# ---------------------------------------------------------------------------------------------------- the command line


def gather(places: Mapping[str, str], _former: Mapping[str, Any]) -> dict[str, Any]:
    folder = Path(places["runs"], NAME)
    folder.mkdir(parents=True, exist_ok=True)
    found, given = {}, None
    for fault in FAULTS:
        path = folder / f"{fault.replace(' ', '-')}.json"
        if not path.exists():
            given = given or corpus(places["data"], SIZES.max_len)
            print(f"\n{fault}: {FAULTS[fault].__doc__}", flush=True)
            summary = trained(fault, given)
            with replacing(path) as file:
                file.write(json.dumps(summary).encode())
        found[fault] = json.loads(path.read_text())
    settings = {"steps": STEPS, "warmup": WARMUP, "rows": ROWS, "lr": LR, "clip": CLIP}
    settings |= {"vocabulary": VOCABULARY, "valid_pairs": VALID}
    return {"settings": settings, **environment(), "faults": found}


def tell(record: Mapping[str, Any]) -> None:
    for name, summary in record["faults"].items():
        last = summary["losses"][-50:]
        print(
            f"{name:22} training {sum(last) / len(last):.2f}, unseen {summary['valid_loss']:.2f} nats a word, "
            f"BLEU {summary['bleu']:.1f}, stutter {summary['stutter']:.0%}"
        )
        for english, french in summary["said"].items():
            print(f"  {english:30} {french[:80]}")


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())

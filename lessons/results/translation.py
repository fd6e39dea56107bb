"""English into French: what the trained translators have learnt, in figures and in sentences.

python -m lessons.results.runs translation       trains them (hours), or goes on where that was stopped
python -m lessons.results.translation            reads the runs, writes translation.json and draws the figures
python -m lessons.results.translation --draw     draws the figures again, from translation.json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import autograd.functional as F
from lessons.harness.engine import watched
from lessons.results import experiments
from lessons.results.record_files import save_figure
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import Run, about, metrics, note_of
from minitransformer.app.data import Tokenizer, WordTokenizer, read_pairs
from minitransformer.app.tasks.trained import Trained, open_model
from minitransformer.app.tasks.translating import source_ids, translations

NAME = "translation"
RECURRENT = 2.75  # nats a word: the best that is reported of a recurrent encoder-decoder, with the labs' vocabularies
# those that every report on the lab tries
SENTENCES = (
    "I am a student.", "I have a red car.", "I love playing video games.", "This river is full of fish.",
    "The fridge is full of food.", "The cat fell asleep on the mat.", "My brother likes pizza.",
    "I did not mean to hurt you.", "She is so mean.", "Help me pick out a tie to go with this suit!",
    "I can't help but smoking weed.", "The kids were playing hide and seek.",
    "The cat fell asleep in front of the fireplace.",
)  # fmt: skip
SHOWN = (1, 4, 12)  # of the sentences, with what the model looks at
BEAMS = 5


def summarize(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    """All that is told about one translator."""
    (run,) = runs
    lines, note = metrics(run, places), note_of(run, places)
    trained = open_model(str(run.folder(places)), "Translator")
    written = {beams: _written(trained, beams) for beams in (1, BEAMS)}
    known = {english.lower() for english, _ in pairs("train", places)}
    unknown = trained.codecs["source"].unknown
    said = [
        {"english": text, "trained_on": text.lower() in known, "greedy": greedy, "beam": beam, "unknown": unknown(text)}
        for text, greedy, beam in zip(SENTENCES, written[1], written[BEAMS], strict=True)
    ]
    last = lines["evaluation"][-1]
    return {
        **about(runs, places),
        "weights": trained.model.num_parameters(),
        "words": [trained.codecs[side].tokenizer.vocab_size for side in ("source", "target")],
        "cpu_minutes": last["cpu_seconds"] / 60,
        "tokens": last["tokens"],
        "tokens_a_word": tokens_a_word(trained, places),
        "measured": note["measured"],
        "curve": {name: [line[name] for line in lines["evaluation"]] for name in ("step", "tokens", "loss")},
        "sentences": said,
        "looks": [look(trained, said[number]["english"], said[number]["beam"]) for number in SHOWN],
    }


def any_case(measured: Mapping[str, Any]) -> float:
    """BLEU without regard to capitals, so that models that write them and models that cannot are compared."""
    return measured["bleu"] if measured["bleu_lowercase"] else measured["bleu_any_case"]


def pairs(name: str, places: Mapping[str, str]) -> list[tuple[str, str]]:
    return read_pairs(os.path.join(places["data"], "tatoeba-eng-fra", f"{name}.tsv"))


def tokens_a_word(trained: Trained, places: Mapping[str, str]) -> float:
    """1 for a model of words; with it, the loss of a model of pieces can be told by the word too."""
    codec, words = trained.codecs["target"], WordTokenizer(["-"])
    texts = [french for _, french in pairs("valid", places)]
    ends = len(texts)  # each text's end is predicted too
    return (sum(len(codec.encode(text)) for text in texts) + ends) / (sum(len(words.cut(t)) for t in texts) + ends)


def _written(trained: Trained, beams: int) -> list[str]:
    found = translations(trained.model, trained.codecs, SENTENCES, beams=beams)
    return [trained.codecs["target"].decode(ids) for ids in found]


def look(trained: Trained, english: str, french: str) -> dict[str, Any]:
    """How much each word to be written looks at each word of the source: the last layer, mean of its heads."""
    source, target = trained.codecs["source"], trained.codecs["target"]
    rows = [*source_ids(trained.model, source, english), Tokenizer.eos], [Tokenizer.sos, *target.encode(french)]
    with watched(F, "attention") as calls:
        trained.model(*(np.array([row]) for row in rows))
    q, k, _ = calls[-1]
    weights = F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5).numpy()[0].mean(axis=0)
    return {
        "source": [*(source.tokenizer.decode([i]) or "?" for i in rows[0][:-1]), "<end>"],
        "target": [*(target.tokenizer.decode([i]) or "?" for i in rows[1][1:]), "<end>"],
        "weights": weights.tolist(),
    }


# ---------------------------------------------------------------------------------------------------------- the figures


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    figures = {"translation.png": _curves(record, plt, style), "attention.png": _maps(record, plt)}
    return [save_figure(figure, folder / name) for name, figure in figures.items()]


def _curves(record: Mapping[str, Any], plt: Any, style: Any) -> Any:
    """Words and pieces apart, for their losses cannot be compared: only the latter must spell what is rare."""
    kinds: dict[str, list[Any]] = {}
    for (name, summary), colour, dashes in zip(record["runs"].items(), style.COLOURS, style.DASHES, strict=False):
        curve, scale = summary["curve"], summary["tokens_a_word"]
        words, losses = np.array(curve["tokens"]) / scale / 1e6, np.array(curve["loss"]) * scale
        look = {"color": colour, "linestyle": dashes, "label": name}
        kinds.setdefault("Models of words" if scale == 1 else "Models of pieces", []).append((words, losses, look))
    figure, axes = plt.subplots(1, len(kinds), sharey=True, squeeze=False, figsize=(4.5 * len(kinds), 4.2))
    for axis, (kind, curves) in zip(axes[0], kinds.items(), strict=True):
        for words, losses, look in curves:
            axis.plot(words, losses, **look)
        if kind == "Models of words":
            axis.axhline(RECURRENT, color=style.GREY, lw=1.5, linestyle=":", label="a recurrent one, as reported")
        axis.set_title(kind, loc="left")
        axis.set_xlabel("million words read and written")
        axis.legend(loc="upper right")
    axes[0][0].set(ylabel="loss on unseen pairs, nats a word", ylim=(0, None))
    return figure


def _maps(record: Mapping[str, Any], plt: Any) -> Any:
    looks = list(record["runs"].values())[-1]["looks"]
    widths = [len(one["source"]) for one in looks]
    figure, axes = plt.subplots(1, len(looks), figsize=(1.6 + 0.5 * sum(widths), 4.4), width_ratios=widths)
    for axis, one in zip(np.atleast_1d(axes), looks, strict=True):
        axis.imshow(one["weights"], cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(one["source"])), one["source"], rotation=60, ha="right")
        axis.set_yticks(range(len(one["target"])), one["target"])
        axis.grid(visible=False)
        axis.set_xlabel("English pieces")
    np.atleast_1d(axes)[0].set_ylabel("piece to be written")
    figure.suptitle(
        "What the decoder looks at in the English sentence (white: not at all, black: at nothing else)",
        x=0.01,
        ha="left",
    )
    return figure


# ---------------------------------------------------------------------------------------------------- the command line


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    runs = {name: [run] for name, run in experiments.TRANSLATION.items()}
    return {"runs": require_any(summaries(runs, summarize, places, former.get("runs", {})), NAME)}


def tell(record: Mapping[str, Any]) -> None:
    for name, found in record["runs"].items():
        greedy, beam = (found["measured"][how] for how in ("greedy", "beam"))
        loss = greedy["loss"] * found["tokens_a_word"]
        print(f"{name}: {loss:.3f} nats a word, BLEU {any_case(greedy):.1f} (beam: {any_case(beam):.1f})")
        for said in found["sentences"]:
            print(f"  {said['english']:48} {said['beam']}")


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())

"""What lesson 13 measures: trainings with one fault at a time, the translations that come of them, and the checks of
its two trials, each with what was seen in words."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import autograd.functional as F
from lessons import faults
from lessons.corner_of_french import corner
from lessons.faults import REPORTED
from lessons.harness.engine import broken, watched
from minitransformer import Translator
from minitransformer.app.data import TranslationBatches, WordTokenizer, read_pairs
from minitransformer.app.data.batches.padded import EOS, PAD, right_pad
from minitransformer.app.language import detokenize
from minitransformer.app.tasks.measures import bleu, translation_loss
from minitransformer.decoding import beam_search, generate
from minitransformer.optim import Adam, clip_grad_norm, warmup_cosine

SOUND, LATE, LEAKED, LOST = "sound", "mask after softmax", "leaked target", "unregistered weights"
Check = tuple[bool, str]

# sentences


class Corpus(NamedTuple):
    """Two tokenizers, ids to train on (sources, targets), pairs of texts to test with, the longest sentence."""

    english: Any
    french: Any
    training: tuple
    test: list
    max_len: int


def corpus_of(tokenizers, training, test, max_len: int) -> Corpus:
    ids = tuple([tokenizer.encode(pair[side]) for pair in training] for side, tokenizer in enumerate(tokenizers))
    return Corpus(*tokenizers, ids, test, max_len)


def small_corpus() -> tuple[Corpus, float]:
    """The corner of French, its test kept apart from what is trained on; and the best possible loss."""
    language = corner()
    drawn = [(" ".join(pair.english), " ".join(pair.french)) for pair in language.sample(13_000, seed=0)]
    test = list(dict.fromkeys(drawn))[:200]
    kept_apart = set(test)
    training = [pair for pair in drawn if pair not in kept_apart]
    tokenizers = [WordTokenizer(words, split="spaces") for words in language.vocabulary()]
    return corpus_of(tokenizers, training, test, 16), language.best_translation_loss()


def real_corpus(folder: Path) -> Corpus:
    """Pairs of at most ten words a side that people wrote; the commonest words, in lower case."""
    parts = [read_pairs(folder / f"{part}.tsv") for part in ("train", "valid")]
    train, valid = ([p for p in pairs if max(len(side.split()) for side in p) <= 10] for pairs in parts)
    tokenizers = [WordTokenizer.train([p[i] for p in train], max_size=5000, lower=True) for i in range(2)]
    test = [(a, tokenizers[1].decode(tokenizers[1].encode(b))) for a, b in valid[:200]]
    return corpus_of(tokenizers, train, test, 24)


# training


class Recipe(NamedTuple):
    rate: float
    steps: int
    careful: bool
    width: int = 48
    layers: int = 1


CAREFUL, CARELESS = Recipe(1e-2, 140, True), Recipe(2e-2, 140, False)
REAL = Recipe(2e-3, 3000, True, width=128, layers=2)


@dataclass(eq=False)
class Run:
    """A trained model, the fault it lives with, and the losses and gradient norms of its training."""

    model: Translator
    fault: str
    corpus: Corpus
    losses: np.ndarray
    norms: np.ndarray


def train(corpus: Corpus, fault: str, recipe: Recipe, seed: int) -> Run:
    losses, norms = [], []
    vocabularies = corpus.english.vocab_size, corpus.french.vocab_size
    sizes = (recipe.width, 4, recipe.layers, recipe.layers, 2 * recipe.width)
    pool = TranslationBatches(*corpus.training, max_len=corpus.max_len, rows=32, seed=seed, bucket_batches=1)
    batches = itertools.chain.from_iterable(map(pool.epoch, itertools.count()))
    schedule = warmup_cosine(20, recipe.steps) if recipe.careful else lambda step: 1.0
    with broken(REPORTED[fault]):
        model = Translator(*vocabularies, *sizes, max_len=corpus.max_len, seed=seed)
        optimizer = Adam(model.parameters())
        for step, batch in enumerate(itertools.islice(batches, recipe.steps), start=1):
            optimizer.lr = recipe.rate * schedule(step)
            optimizer.zero_grad()
            loss = translation_loss(model, batch)
            losses.append(float(loss))
            if not np.isfinite(losses[-1]):
                break  # diverged: there is nothing left to train
            loss.backward()
            norms.append(clip_grad_norm(model.parameters(), 1.0 if recipe.careful else np.inf))
            optimizer.step()
    return Run(model, fault, corpus, np.array(losses), np.array(norms))


def smooth(losses: np.ndarray) -> np.ndarray:
    return np.convolve(losses, np.ones(10) / 10, "valid")


def growth(run: Run) -> float:
    """How many times its own lowest value the loss ends at."""
    mean = smooth(run.losses)
    return mean[-1] / mean.min() if np.isfinite(run.losses[-1]) else np.inf


def still_finite(run: Run) -> bool:
    return all(np.isfinite(weight.numpy()).all() for weight in run.model.parameters())


# translating


def prepared(run: Run, sentences, padding: int = 0) -> tuple[tuple, dict]:
    """Source, lengths, and what every search is told; no cache, so that a fault acts as it did in training."""
    rows = [[*run.corpus.english.encode(sentence), EOS] for sentence in sentences]
    source = np.pad(right_pad(rows, PAD), ((0, 0), (0, padding)), constant_values=PAD)
    never = (0, PAD, 3)  # <sos>, <pad> and the unknown word
    return (source, np.array([len(row) for row in rows])), {"eos": EOS, "suppress": never, "use_cache": False}


def english(run: Run) -> list[str]:
    return [source for source, _ in run.corpus.test]


def translate(run: Run, sentences=None, padding: int = 0, model=None, **options) -> list:
    """Ids of the translations of these (or of the test's) sentences, written with the run's own fault."""
    batch, usual = prepared(run, english(run) if sentences is None else sentences, padding)
    with broken(REPORTED[run.fault]):
        return generate(model or run.model, *batch, **usual | options)


def in_french(run: Run, sentence: str, **options) -> str:
    return run.corpus.french.decode(translate(run, [sentence], **options)[0])


def right(run: Run, rows) -> np.ndarray:
    """Which translations of the test's sentences are right, word for word."""
    pairs = zip(rows, run.corpus.test, strict=True)
    return np.array([run.corpus.french.decode(row) == french for row, (_, french) in pairs])


def changed_by_padding(run: Run, columns: int = 5) -> int:
    """How many translations change when so many columns of padding are added to the sources."""
    return sum(a != b for a, b in zip(translate(run), translate(run, padding=columns), strict=True))


def by_beam(run: Run, beams: int) -> int:
    """How many of the sentences that a beam search finds likeliest are right."""
    batch, usual = prepared(run, english(run))
    with broken(REPORTED[run.fault]):
        return int(right(run, [best[0].tokens for best in beam_search(run.model, *batch, beams=beams, **usual)]).sum())


def stutter(rows) -> float:
    """The share of words that equal the word before them."""
    return sum(a == b for row in rows for a, b in itertools.pairwise(row)) / max(1, sum(map(len, rows)))


class Score(NamedTuple):
    loss: float  # of the last twenty steps of training
    right: int  # sentences that are right word for word
    bleu: float  # gives credit for parts
    stutter: float


def score(run: Run) -> Score:
    rows = translate(run)
    texts = [detokenize(run.corpus.french.decode(row) or "?", "fr") for row in rows]
    references = [detokenize(french, "fr") for _, french in run.corpus.test]
    return Score(run.losses[-20:].mean(), int(right(run, rows).sum()), bleu(texts, references), stutter(rows))


def ranges(scores: list[Score]) -> list[str]:
    """For each column of the table, the range over all starts."""
    columns = zip(zip(*scores, strict=True), (".3f", "d", ".0f", ".1%"), strict=True)
    both = (dict.fromkeys(f"{f(column):{form}}" for f in (min, max)) for column, form in columns)
    return [" to ".join(ends) for ends in both]


def look(run: Run, source: str, target: str) -> np.ndarray:
    """Weights with which each word to be written looks at each word of the source, mean of the heads.   → (T, S)

    The engine keeps no weights, but they are easily had: note the queries and keys of the last attention (the decoder's
    look at the source), and take the softmax of their products again."""
    ids = [*run.corpus.english.encode(source), EOS], [0, *run.corpus.french.encode(target)]
    with broken(REPORTED[run.fault]), watched(F, "attention") as calls:
        run.model(*(np.array([row]) for row in ids))
    q, k, _ = calls[-1]
    return F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5).numpy()[0].mean(axis=0)


# the checks of the first trial


def symptom_table() -> list[list[str]]:
    return [[fault, *map(str, faults.symptoms(change).values())] for fault, change in REPORTED.items()]


def symptoms_show() -> tuple[Check, Check]:
    """The four counts are 0 for the sound engine, and some is not for each fault, before any training."""
    counts = {fault: list(faults.symptoms(change).values()) for fault, change in REPORTED.items()}
    healthy, seen = counts.pop(SOUND), sum(map(any, counts.values()))
    text = f"symptoms of the sound engine before training: {healthy} (all 0 expected)"
    return (not any(healthy), text), (seen == len(counts), f"{seen} of {len(counts)} faults show before any training")


def right_french_never_stutters(corpus: Corpus) -> Check:
    share = stutter([french.split() for _, french in corpus.test])
    return share == 0, f"stutter of right French: {share:.1%} (0 expected)"


def steady_without_dropout(scores: list[Score], n: int) -> Check:
    """95 %, because even a model without positions comes to 90."""
    worst, most = min(s.right for s in scores), max(s.stutter for s in scores)
    text = f"with norm, careful, no dropout: {worst} of {n} right or more from each of {len(scores)} starts"
    return worst >= 0.95 * n and most == 0, f"{text} (95 % expected), {most:.1%} stutter (0 expected)"


def calm_with_norm(runs: list[Run]) -> Check:
    tame, steep = max(map(growth, runs)), max(run.norms.max() for run in runs)
    text = f"with norm, careless: the loss ends at {tame:.2f} times its lowest value at most"
    return tame < 1.5, f"{text} (1.5 allowed, for it wavers), gradients up to {steep:,.0f}"


def wild_without_norm(runs: list[Run]) -> Check:
    grown, steep = min(map(growth, runs)), max(run.norms.max() for run in runs)
    ends = ", ".join(f"{run.losses[-1]:.1f}" for run in runs)
    text = f"without norm, careless: the loss ends at {grown:,.0f} times its lowest value or more (3 expected)"
    return grown > 3, f"{text}, at {ends} from {len(runs)} starts, gradients up to {steep:,.0f}"


def careful_without_norm(scores: list[Score], n: int) -> Check:
    gentle = min(s.right for s in scores)
    return gentle >= 0.9 * n, f"without norm, careful: {gentle} of {n} right or more (90 % expected)"


def best_loss_worst_words(leaked: list[Score], sound: list[Score], n: int) -> Check:
    low, lowest = max(s.loss for s in leaked), min(s.loss for s in sound)
    none, twice = max(s.right for s in leaked), min(s.stutter for s in leaked)
    text = f"leaked target: loss {low:.4f} or less (sound: {lowest:.4f} or more), {none} of {n} right (0 expected)"
    return low < lowest and none == 0 and twice > 0.5, f"{text}, {twice:.0%} stutter or more (half expected)"


def healthy_curve_broken_words(late: list[Score], sound: list[Score], n: int) -> Check:
    """A loss within twice the sound one: nobody would be alarmed by the curve."""
    alike, few = max(s.loss for s in late) / max(s.loss for s in sound), max(s.right for s in late)
    text = f"mask after softmax: {alike:.1f} times the sound loss (under 2 expected), {few} of {n} right at most"
    return alike < 2 and few < n / 2, f"{text} (under half expected)"


def drawn_anew(run: Run, seed: int) -> Translator:
    return Translator(run.model.config, seed=seed)


def weights_that_never_moved(run: Run) -> Check:
    before = dict(drawn_anew(run, run.model.config.seed).named_parameters())
    weights = run.model.named_parameters()
    same = [name for name, weight in weights if np.array_equal(weight.numpy(), before[name].numpy())]
    text = f"unregistered weights: {len(same)} of {len(before)} tensors stay as they were drawn, bit for bit"
    return len(same) == 12 and all("attn" in name for name in same), (
        f"{text} (12 expected: four in each of three attentions)"
    )


def reloaded(run: Run) -> int:
    """How many translations are right once the weights were saved, with the fault, and loaded into another model."""
    other = drawn_anew(run, seed=99)
    with broken(REPORTED[run.fault]):
        saved = run.model.state_dict()
    other.load_state_dict(other.state_dict() | saved)
    return int(right(run, translate(run, model=other)).sum())


def lost_by_saving(sound: Run, before: int, lost: Run, after: int, n: int) -> Check:
    kept, gone = reloaded(sound), reloaded(lost)
    text = f"saved and loaded, the sound model gets {kept} right ({before} before; the same expected), the one with "
    text += f"unregistered weights {gone} ({after} before; under {n // 10} expected)"
    return kept == before and gone < n / 10, text


# the checks of the second trial


def found(run: Run, rows, shift: int) -> list[float]:
    """For each row, which part of the words of the translation `shift` sentences further on it holds."""
    french = run.corpus.french
    wanted = [set(french.encode(target)) - set(french.encode(".")) for _, target in run.corpus.test]
    return [len(want & set(row)) / len(want) for want, row in zip(wanted[shift:] + wanted[:shift], rows, strict=True)]


class Written(NamedTuple):
    """Twelve words for each sentence of the test, by each of some runs."""

    rows: list
    own: np.ndarray  # for each row, the share of words of its own right translation that it holds
    other: np.ndarray  # and of the next sentence's

    @property
    def doubled(self) -> int:
        return sum(len(row) - len(set(row)) for rows in self.rows for row in rows)


def write(runs: list[Run], once: bool) -> Written:
    """once: no word may be repeated"""
    rule = {"no_repeat": 1} if once else {}
    rows = [translate(run, eos=None, max_new_tokens=12, **rule) for run in runs]
    shares = [np.concatenate([found(run, one, shift) for run, one in zip(runs, rows, strict=True)]) for shift in (0, 1)]
    return Written(rows, *shares)


def percent(shares) -> str:
    return f"{round(100 * np.mean(shares))} %"  # a whole number: no "-0"


def more_than_by_chance(freely: Written, once: Written) -> Check:
    """Five standard errors: no accident, whatever the distribution."""
    gaps = once.own - freely.own, once.own - once.other
    certain = min(gap.mean() * np.sqrt(gap.size) / max(gap.std(), 1e-9) for gap in gaps)
    text = f"late mask: {percent(freely.own)} of the right words are found, {percent(once.own)} under the rule, "
    text += f"{percent(once.other)} by chance; both gaps are {certain:.0f} standard errors or more (5 expected)"
    return certain > 5, text


def nothing_but_chance(leaked: Written, late: Written) -> Check:
    surplus, useful = leaked.own - leaked.other, late.own - late.other
    text = f"leaked target: {percent(leaked.own)} under the rule, {percent(leaked.other)} by chance: a surplus of "
    text += f"{percent(surplus)}, against {percent(useful)} for the late mask (under a quarter expected)"
    return surplus.mean() < useful.mean() / 4, text


def a_crutch(sound: list[Run], late: list[Run], n: int) -> tuple[Check, int, int]:
    """The sound model without help does better than the other with it. And how many are right, of either."""
    worst = min(int(right(run, translate(run)).sum()) for run in sound)
    helped = max(int(right(run, translate(run, no_repeat=1)).sum()) for run in late)
    text = f"right sentences: {worst} of {n} or more for the sound model alone, {helped} at most for the late mask "
    return (worst > helped, text + "under the rule (fewer expected)"), worst, helped


def right_words_forbidden(sound: list[Run]) -> Check:
    """Sentences that need a word twice: how many the sound model gets right, without and with the rule."""
    test = sound[0].corpus.test
    twice = [len(set(french.split())) < len(french.split()) for _, french in test]
    kept, left = (
        sum(int(right(run, translate(run, **options))[twice].sum()) for run in sound)
        for options in ({}, {"no_repeat": 1})
    )
    text = f"of {len(sound) * sum(twice)} sentences that need a word twice the sound model gets {kept} right, {left}"
    return left == 0 < kept, f"{text} under the rule (0 expected)"


# sentences that people wrote


def on_real_sentences(folder: Path) -> Iterator[str]:
    """A larger model learns short sentences that people wrote, and two sick siblings beside it; what each says."""
    corpus = real_corpus(folder)
    for fault in (SOUND, LATE, LEAKED):
        run = train(corpus, fault, REAL, 0)
        result = score(run)
        yield f"{fault}: loss {result.loss:.2f}, BLEU {result.bleu:.1f}, stutter {result.stutter:.1%}"
        for line in ("I am a student.", "I have a red car.", "My brother likes pizza.", "The fridge is full of food."):
            yield f"  {line:30}{in_french(run, line)}"

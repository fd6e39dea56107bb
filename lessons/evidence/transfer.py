"""What lesson 11 measures, and on what: a small language of reading-diary entries whose every probability is known, the
training of its models, what generation costs, and how far a pretrained model is ahead of one from scratch."""

import functools
import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from autograd import no_grad, tape
from minitransformer import Classifier, LanguageModel
from minitransformer.app.data import ClassifierBatches, LanguageModelBatches, WordTokenizer, read_labelled
from minitransformer.app.language import Language
from minitransformer.app.language.automaton import Automaton
from minitransformer.app.language.decision import best_accuracy
from minitransformer.app.language.grammar import choice, maybe, one_of, seq
from minitransformer.app.progress import Silent
from minitransformer.app.tables import table
from minitransformer.app.tasks.measures import classifier_scores, language_model_loss
from minitransformer.app.training import Options, train
from minitransformer.decoding import Cache, Session, generate
from minitransformer.layers import rows_at
from minitransformer.optim import Adam, warmup_cosine

# The language

WORDS = """
superb charming clever moving vivid witty elegant gripping tender funny luminous subtle splendid brilliant candid
boring dull clumsy tedious lifeless sloppy dreadful bland wooden gloomy muddled shallow pompous awful greasy"""
GOOD, BAD = (line.split() for line in WORDS.strip().splitlines())


def about(good, *names):
    same, opposite = (one_of(*words) for words in ((GOOD, BAD) if good else (BAD, GOOD)))
    return seq(one_of(*names), choice((5, same), (1, seq("not", opposite))))


def entry(good):
    aside = maybe(1, 2, seq(one_of("uncle", "dentist"), "says", one_of(*GOOD, *BAD), ","))
    first, second = about(good, "plot", "story"), about(good, "style", "rhythm")
    third, fourth = about(good, "hero", "heroine"), about(good, "ending", "finale")
    return seq(first, ",", second, ",", aside, third, ",", fourth, ".")


automaton = Automaton()
roots = [automaton.compile(entry(good)) for good in (False, True)]
diary = Language(automaton, automaton.mix((0.5, root) for root in roots))
given = [Language(automaton, root) for root in roots]
tokenizer = WordTokenizer(diary.vocabulary(), split="spaces")
CEILING = best_accuracy(automaton, *roots)


def encoded(texts):
    return [np.array(tokenizer.encode_pieces(words)) for words in texts]


@functools.cache
def labelled(n, seed):
    """n entries (as ids) and their labels."""
    generator = np.random.Generator(np.random.PCG64(seed))
    labels = generator.integers(0, 2, n)
    drawn = [iter(language.draw(int((labels == y).sum()), generator)) for y, language in enumerate(given)]
    return encoded(next(drawn[y]) for y in labels.tolist()), labels


# The language model


def stop_if(interrupted):
    """The loop ends politely at Ctrl-C; a lesson must not go on with half a training."""
    if interrupted:
        raise KeyboardInterrupt


def batches_of(texts):
    """32 entries at a time, in random order."""
    return LanguageModelBatches(encoded(texts), max_len=64, rows=32, windows=True)


def pretrain(documents, vocabulary, *, d_model=32, rows=32, lr=1e-2, epochs=1, seed=0):
    """A language model that has read these documents."""
    sizes = {"d_model": d_model, "n_heads": 4, "n_layers": 2, "d_ff": 2 * d_model, "max_len": 64, "norm_first": True}
    model = LanguageModel(vocabulary, seed=seed, **sizes)
    batches = LanguageModelBatches(documents, max_len=64, rows=rows, windows=True)
    total = epochs * batches.count()
    result = train(
        model, Adam(model.named_parameters(), lr=lr), batches,
        lambda model, batch: model.loss(batch.ids, batch.targets, ignore_index=batch.ignore),
        Options(max_epochs=epochs), schedule=warmup_cosine(total // 10, total), progress=Silent(),
    )  # fmt: skip
    stop_if(result.interrupted)
    return model.eval()


def next_words(model, text):
    """Word → its probability to come next after this text."""
    with no_grad():
        scores = model(np.array([[tokenizer.sos, *tokenizer.encode(text)]])).numpy()[0, -1].astype(float)
    powers = np.exp(scores - scores.max())
    return {tokenizer.decode([i]): p for i, p in enumerate(powers / powers.sum())}


def good_and_bad(model, text):
    """Probability that the next word praises, and that it blames."""
    probability = next_words(model, text)
    return [sum(probability[word] for word in words) for words in (GOOD, BAD)]


def copy_of(model, dtype="float32"):
    """The same language model, in another precision if asked for."""
    copied = LanguageModel(model.config, dtype=dtype)
    copied.load_state_dict(model.state_dict())
    return copied


def bits(model):
    return {name: array.tobytes() for name, array in model.state_dict().items()}


class Swap(NamedTuple):
    """What a language model and the classifier made from it have in common."""

    weights: int  # of the language model, by name
    differ: list[str]  # names of those that are not the same, bit by bit
    unequal: int  # numbers in the vectors between base and head that are not the same
    numbers: int
    scores: tuple[int, int]  # that either head gives
    changed: int  # of the language model's weights, after a training step of the classifier

    def checks(self):
        """What must hold, and what was seen."""
        text = f"{len(self.differ)} of {self.weights} weights differ (2 expected, head.weight and head.bias)"
        yield self.differ == ["head.bias", "head.weight"], text
        text = f"{self.unequal} of {self.numbers:,} numbers between base and head differ in any bit (0 expected)"
        yield self.unequal == 0, text
        wanted = tokenizer.vocab_size, 2
        yield self.scores == wanted, f"the heads give {self.scores} scores ({wanted} expected)"
        yield self.changed == 0, f"a step of the classifier changes {self.changed} of the language model's weights"


def swap(model):
    classifier = Classifier.from_language_model(model, n_classes=2, seed=7)
    before, after = bits(model), bits(classifier)
    differ = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    batch = next(iter(ClassifierBatches(*labelled(64, 5), max_len=64, rows=64).epoch()))
    with no_grad():
        one, other = model.base(batch.ids).numpy(), classifier.base(batch.ids).numpy()
        scores = model(batch.ids).shape[-1], classifier(batch.ids, batch.lengths).shape[-1]
    classifier.loss(batch.ids, batch.labels, batch.lengths).backward()
    Adam(classifier.parameters(), lr=1e-3).step()
    changed = sum(value != before[name] for name, value in bits(model).items())
    return Swap(len(before), differ, int((one != other).sum()), one.size, scores, changed)


def learnt(model, entries):
    """Loss a word on unseen entries; the exact floor that the language's entropy sets on them; and the loss of one who
    knows nothing but how often each word occurs."""
    texts = diary.sample(entries, seed=4)
    words = sum(len(text) + 1 for text in texts)
    floor = -math.fsum(diary.log_probability(text) for text in texts) / words
    counts = Counter(word for text in texts for word in (*text, "</s>"))
    alone = -math.fsum(c / words * math.log(c / words) for c in counts.values())
    held = LanguageModelBatches(encoded(texts), max_len=64, rows=100, shuffle=False)
    return language_model_loss(model, held.epoch())["loss"], floor, alone


# Generation

PROMPTS = np.array([[tokenizer.sos, *ids[:3]] for ids in encoded(diary.sample(8, seed=9))])


def with_and_without_cache(model):
    """Continues eight prompts to the model's end, greedily, both ways side by side: the largest difference of their
    scores, the words written, and all tokens."""
    fast, slow = Session(model, PROMPTS), Session(model, PROMPTS, use_cache=False)
    worst, words = 0.0, fast.room
    for _ in range(words):
        kept, again = fast.next_logits(), slow.next_logits()
        worst = max(worst, float(abs(kept - again).max()))
        for session in (fast, slow):
            session.append(again.argmax(axis=1))
    return worst, words, slow.tokens


def rounding_bound(model, tokens):
    """How far apart two right ways to compute the scores may be.

    A computed sum of n products equals an exact sum whose terms are off by at most n u each, relatively, u = 2^-53. So
    rounding acts like a change of the weights by n u. We measure how the scores respond to a random relative change of
    all weights by 1e-7, and scale; times two, because both ways round."""
    delta, rng = 1e-7, np.random.default_rng(0)
    noisy = LanguageModel(model.config)
    noisy.load_state_dict({n: w * (1 + delta * rng.uniform(-1, 1, w.shape)) for n, w in model.state_dict().items()})
    with no_grad():
        response = float(abs(noisy(tokens).numpy() - model(tokens).numpy()).max()) / delta
    longest = max(model.config.d_ff, tokens.shape[1])  # of all sums: the feed-forward's, or attention's
    return 2 * response * longest * 2.0**-53


def continued(model, text, seed):
    """The text's continuation, each word drawn by its probability."""
    prompt = np.array([[tokenizer.sos, *tokenizer.encode(text)]])
    return tokenizer.decode(generate(model, prompt, eos=tokenizer.eos, sample=True, seed=seed)[0])


def same_texts(model):
    """How many of eight texts, drawn at random with one seed, are the same with and without the cache."""
    texts = [generate(model, PROMPTS, sample=True, seed=1, use_cache=kept) for kept in (True, False)]
    return sum(a == b for a, b in zip(*texts, strict=True))


def operations_a_word(model, tokens):
    """For each of 64 words: operations with the whole text again, and with keys and values kept. The cache is taken as
    full from the start, so the second is an upper bound."""
    cache, cached, whole = Cache(2, 1, 64), [], []
    for t in range(64):
        hidden = model.base(tokens[:1, t : t + 1], cache=cache)[:, 0]
        cache.lengths += 1
        cached.append(tape.cost(model.head(hidden)).flops)
        again = rows_at(model.base(tokens[:1, : t + 1]), np.array([t]))[:, 0]
        whole.append(tape.cost(model.head(again)).flops)
    return whole, cached


def prices_as_expected(whole, cached):
    yield len(set(cached)) == 1, f"with the cache each word costs the same: {cached[0]:,} operations"
    bent = int(np.count_nonzero(np.diff(whole, 3)))
    text = f"without it word t costs a square polynomial in t, up to {whole[-1]:,}"
    yield bent == 0 and whole[-1] > whole[0], f"{text} ({bent} third differences are not 0)"


# Fine-tuning

EPOCHS = {32: 8, 128: 5, 1024: 3}  # number of labels: times they are gone through
BATCHES = {32: {}, 128: {}, 1024: {"rows": 16, "lr": 3e-3}}  # else the defaults of fine_tune
STUDENT = {5: 2.776, 10: 2.262}  # number of seeds: 95 % of Student's t with one degree of freedom less
TESTED = 400
test = ClassifierBatches(*labelled(TESTED, 2), max_len=64, rows=100, shuffle=False)


def fine_tune(model, documents, labels, epochs, seed, held=test, rows=8, lr=5e-3):
    """Accuracy on unseen entries after each epoch."""
    curve = []

    def look(model):
        curve.append(classifier_scores(model, held.epoch())["accuracy"])
        return {"accuracy": curve[-1]}

    result = train(
        model, Adam(model.named_parameters(), lr=lr),
        ClassifierBatches(documents, labels, max_len=64, rows=rows, seed=seed),
        lambda model, batch: model.loss(batch.ids, batch.labels, batch.lengths),
        Options(max_epochs=epochs, monitor="accuracy", perplexity=False), evaluate=look, progress=Silent(),
    )  # fmt: skip
    stop_if(result.interrupted)
    return np.array(curve)


def on_labels(model, n, seed):
    """The model fine-tuned on n labels, drawn by this seed."""
    return fine_tune(model, *labelled(n, 100 + seed), EPOCHS[n], seed, **BATCHES[n])


def two_classifiers(lm, seeds, remember):
    """Two functions, for the pretrained classifier and for the one from scratch: labels → accuracies (seeds, epochs).

    remember  keeps the pretrained runs until the engine is broken in another way. The runs from scratch are kept for
              good: the controls of their trials break the swap, which has no part in them."""

    @remember
    def one_pretrained(n, seed):
        return on_labels(Classifier.from_language_model(lm, seed=seed), n, seed)

    @functools.cache
    def one_from_scratch(n, seed):
        return on_labels(Classifier(lm.config, seed=seed), n, seed)

    def over_seeds(one):
        return lambda n: np.array([one(n, seed) for seed in seeds])

    return over_seeds(one_pretrained), over_seeds(one_from_scratch)


def naive_bayes(documents, labels, others, truth, vocabulary):
    """Accuracy of Naive Bayes on the presence of words, with one imagined entry of each kind added."""

    def presence(texts):
        found = np.zeros((len(texts), vocabulary))
        for row, ids in zip(found, texts, strict=True):
            row[ids] = 1
        return found

    x, z, labels = presence(documents), presence(others), np.asarray(labels)
    p = np.array([(x[labels == y].sum(axis=0) + 1) / ((labels == y).sum() + 2) for y in (0, 1)])
    scores = z @ np.log(p).T + (1 - z) @ np.log1p(-p).T + np.log(np.bincount(labels, minlength=2) + 1)
    return float((scores.argmax(axis=1) == truth).mean())


def bayes_on_labels(n, seed):
    return naive_bayes(*labelled(n, 100 + seed), test.documents, test.labels, tokenizer.vocab_size)


def spread(values):
    """Half the width of the 95 % interval of a mean over the seeds."""
    return STUDENT[len(values)] * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def means(pretrained, bayes, scratch):
    """Model → for each number of labels its mean accuracy at the end, and half of the interval around it."""
    ours, theirs = ({n: model(n)[:, -1] for n in EPOCHS} for model in (pretrained, scratch))
    found = {"pretrained": ours, "Naive Bayes": bayes, "from scratch": theirs}
    return {name: [(np.mean(one[n]), spread(one[n])) for n in EPOCHS] for name, one in found.items()}


def table_of_means(ends):
    rows = [(f"{n:,}", *(f"{one[place][0]:.0%}" for one in ends.values())) for place, n in enumerate(EPOCHS)]
    return table(("labels", *ends), rows, right=range(4))


def check_ahead(trial, what, ours, theirs, least=0.0):
    """Seed by seed, how far ahead? The interval of the mean difference must lie above zero, and the mean above `least`:
    five seeds can be sure of who is ahead, and say by how much on average only."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    ahead, half = float((ours - theirs).mean()), spread(ours - theirs)
    wanted = f"surely ahead, and by more than {100 * least:.0f} on average," if least else "surely ahead"
    text = f"{what}: pretrained {ours.mean():.1%}, scratch {theirs.mean():.1%}; ahead by {100 * ahead:.1f}"
    trial.check(ahead > least and ahead - half > 0, f"{text} ± {100 * half:.1f} points ({wanted} expected)")


def check_above(trial, leads):
    """Ahead in the mean of every epoch, and of every seed?   leads (seeds, epochs) → mean lead after one epoch"""
    text = f"above in {int((leads > 0).sum())} of {leads.size} pairs of seed and epoch"
    epochs, seeds = leads.mean(axis=0), leads.mean(axis=1)
    trial.check(epochs.min() > 0, f"128 labels: {text}; on average ahead by {100 * epochs.min():.1f} points or more")
    trial.check(seeds.min() > 0, f"128 labels: each of the {len(seeds)} seeds is ahead over its epochs as a whole")
    return float(leads[:, 0].mean()), text


def real_reviews(data):
    """Lines about the same comparison on real French book reviews, in a cheap version: the 4,000 commonest pieces, the
    first 63 of each review, and a base pretrained on the text of the 1,600 training reviews alone. They are shown and
    decide nothing."""
    folder = data / "cls-books-fr" if data else None
    if folder is None or not folder.is_dir():
        yield "real reviews: not run; they need --full --data DIR, and a folder DIR/cls-books-fr"
        return
    known, held = (read_labelled(folder / f"{part}.review.spm") for part in ("train", "valid"))
    words = WordTokenizer.train(known.texts, max_size=4000, split="spaces")
    documents, others = words.encode_all(known.texts), words.encode_all(held.texts)
    base = pretrain(documents, words.vocab_size, d_model=64, rows=16, lr=3e-3, epochs=3)
    valid = ClassifierBatches(others, held.labels, max_len=64, rows=50, shuffle=False)
    order = np.random.default_rng(0).permutation(len(documents))
    for n in (200, 1600):
        texts, labels = [documents[i] for i in order[:n]], [known.labels[i] for i in order[:n]]
        bayes = naive_bayes(texts, labels, others, np.array(held.labels), words.vocab_size)
        yield f"real reviews, {n:,} labels: Naive Bayes on whole reviews {bayes:.1%}"
        for seed in range(2):
            for name, model in (("pretrained", Classifier.from_language_model(base, seed=seed)),
                                ("scratch", Classifier(base.config, seed=seed))):  # fmt: skip
                curve = fine_tune(model, texts, labels, 5, seed, held=valid, lr=1e-3)
                yield f"  seed {seed}, {name:10} " + " ".join(f"{accuracy:.1%}" for accuracy in curve)

"""Writing text: the cache changes nothing, rows do not disturb each other, search finds what enumeration finds."""

import gc
import itertools
import math
import weakref

import numpy as np
import pytest

import kernels
from autograd import Tensor
from minitransformer.decoding import Cache, Session, beam_search, generate, probabilities, repeated, stream
from minitransformer.decoding.beam import penalty
from minitransformer.decoding.constraints import draw, log_softmax
from minitransformer.models import Classifier, LanguageModel, Translator

EOS = 2
VOCABULARY = 7
PROMPTS = np.array([[0, 3, 4, 5], [0, 6, 1, 1], [0, 1, 1, 1]])
LENGTHS = np.array([4, 2, 1])


def language_model(**options):
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_len": 16, "seed": 1, "dtype": "float64"}
    model = LanguageModel(VOCABULARY, **sizes | options)
    model.head.weight.data *= 10  # sharper, so that the choices are not all alike
    return model


def translator(**options):
    sizes = {"d_model": 8, "n_heads": 2, "n_encoder": 1, "n_decoder": 2, "d_ff": 12, "max_len": 16, "seed": 3}
    model = Translator(9, VOCABULARY, **sizes | {"dtype": "float64"} | options)
    model.head.weight.data *= 10
    return model


TODAY = {"norm_first": True, "norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1,
         "bias": False, "head_bias": False, "scale_embedding": False}  # fmt: skip
MODELS = {
    "LanguageModel": language_model,
    "Translator": translator,
    "of Llama's type": lambda: language_model(**TODAY, seed=3),
    "translator of today's parts": lambda: translator(**TODAY, seed=2),
}
STRATEGIES = {
    "greedy": {},
    "temperature": {"temperature": 1.5, "seed": 1},
    "top-k": {"top_k": 3, "seed": 2},
    "top-p": {"top_p": 0.8, "temperature": 2.0, "seed": 3},
    "no repeated word": {"no_repeat": 1},
    "no repeated pair": {"no_repeat": 2, "sample": True},
    "suppressed": {"suppress": [3, 4]},
}


@pytest.fixture(params=MODELS)
def model(request, backend):
    return MODELS[request.param]()


@pytest.fixture(params=MODELS)
def model_on_numpy(request):
    with kernels.use("numpy"):
        yield MODELS[request.param]()


def next_probabilities(model, row, length, words):
    """p(next word | words so far), by the plain forward pass. Row and length are those of PROMPTS."""
    if isinstance(model, Translator):
        logits = model(PROMPTS[row : row + 1, :length], [[0, *words]]).numpy()[0, -1]
    else:
        logits = model([[*PROMPTS[row, :length], *words]]).numpy()[0, -1]
    e = np.exp(logits - logits.max())
    return e / e.sum()


# ---------------------------------------------------------------------------------------------------- word by word


def test_the_cache_changes_no_word(model):
    cached = generate(model, PROMPTS, LENGTHS, max_new_tokens=10, eos=EOS)
    assert cached == generate(model, PROMPTS, LENGTHS, use_cache=False, max_new_tokens=10, eos=EOS)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("eos", [EOS, None])
def test_the_cache_changes_no_word_whatever_the_strategy(model_on_numpy, strategy, eos):
    """What is done with the scores knows no backend."""
    model, options = model_on_numpy, STRATEGIES[strategy] | {"max_new_tokens": 10, "eos": eos}
    cached = generate(model, PROMPTS, LENGTHS, **options)
    assert cached == generate(model, PROMPTS, LENGTHS, use_cache=False, **options)
    assert cached == generate(model, PROMPTS, LENGTHS, **options)
    assert max(map(len, cached)) > 3  # not trivially empty


@pytest.mark.parametrize("strategy", ["greedy", "no repeated pair"])
def test_each_row_is_written_as_if_it_were_alone(model, strategy):
    options = {key: value for key, value in STRATEGIES[strategy].items() if key != "sample"}
    together = generate(model, PROMPTS, LENGTHS, max_new_tokens=10, eos=EOS, **options)
    for row, length in enumerate(LENGTHS):
        alone = generate(model, PROMPTS[row : row + 1, :length], max_new_tokens=10, eos=EOS, **options)
        assert alone == [together[row]]


def test_greedy_takes_the_most_likely_word(model):
    words = generate(model, PROMPTS, LENGTHS, max_new_tokens=5)
    for row, length in enumerate(LENGTHS):
        so_far = []
        for word in words[row]:
            assert word == next_probabilities(model, row, length, so_far).argmax()
            so_far.append(word)


def test_rows_stop_at_eos_one_by_one(model):
    free = generate(model, PROMPTS, LENGTHS, max_new_tokens=10)
    stopped = generate(model, PROMPTS, LENGTHS, max_new_tokens=10, eos=free[0][3])
    for long, short in zip(free, stopped, strict=True):
        end = long.index(free[0][3]) if free[0][3] in long else len(long)
        assert short == long[:end]


def test_a_stream_yields_words_as_they_come(model):
    words = generate(model, PROMPTS, LENGTHS, max_new_tokens=6, eos=EOS, seed=4, sample=True)
    seen = []
    generate(model, PROMPTS, LENGTHS, max_new_tokens=6, eos=EOS, seed=4, sample=True, on_token=seen.append)
    steps = list(stream(model, PROMPTS, LENGTHS, max_new_tokens=6, eos=EOS, seed=4, sample=True))
    assert np.array_equal(steps, seen)
    for row, expected in enumerate(words):
        column = [int(step[row]) for step in steps]
        assert [w for w in column if w != -1] == expected
        assert -1 not in column[: len(expected)]  # after its end a row stays silent


def test_between_two_words_gradients_and_training_mode_are_untouched():
    model = language_model(dropout=0.5)
    state = model.rng_state()
    writer = stream(model, PROMPTS, LENGTHS, max_new_tokens=4)
    next(writer)
    assert model.training and all(m.training for m in model.modules())
    assert (Tensor(np.ones(1), requires_grad=True) * 2.0).requires_grad
    next(writer)
    assert model.rng_state() == state  # no dropout was drawn
    model.eval()
    next(writer)
    assert not model.training


def test_sampling_follows_the_distribution():
    """4,000 rows draw one word each: every frequency within 5 standard deviations."""
    model = language_model(n_layers=1)
    rows = 4000
    words = generate(model, np.repeat(PROMPTS[:1], rows, 0), max_new_tokens=1, sample=True, temperature=1.3, seed=5)
    counts = np.bincount(np.ravel(words), minlength=VOCABULARY) / rows
    logits = model(PROMPTS[:1]).numpy()[0, -1] / 1.3
    p = np.exp(logits - logits.max())
    p /= p.sum()
    assert (np.abs(counts - p) <= 5 * np.sqrt(p * (1 - p) / rows) + 1e-12).all()


def test_seeds_decide():
    model = language_model()
    one, same, other = (
        generate(model, PROMPTS, LENGTHS, max_new_tokens=8, sample=True, temperature=3.0, seed=s) for s in (1, 1, 2)
    )
    assert one == same != other


# ---------------------------------------------------------------------------------------------------- constraints


def test_no_word_comes_twice(model):
    words = generate(model, PROMPTS, LENGTHS, max_new_tokens=10, no_repeat=1)
    for row, length in enumerate(LENGTHS):
        before = [0] if isinstance(model, Translator) else PROMPTS[row, :length].tolist()
        text = before + words[row]
        fresh = text[len(before) :]
        assert len(set(fresh)) == len(fresh) and not set(fresh) & set(before)
        assert set(text) == set(range(VOCABULARY))  # ends when the words are used up


@pytest.mark.parametrize("n", [2, 3])
def test_no_n_words_come_twice(model, n):
    words = generate(model, PROMPTS, LENGTHS, max_new_tokens=12, no_repeat=n)
    for row, length in enumerate(LENGTHS):
        text = ([0] if isinstance(model, Translator) else PROMPTS[row, :length].tolist()) + words[row]
        grams = list(zip(*(text[i:] for i in range(n)), strict=False))
        new = grams[max(0, len(text) - len(words[row]) - n + 1) :]
        assert all(grams.count(gram) == 1 for gram in new)


def test_repeated_by_hand():
    assert repeated([1, 2, 1, 3, 1], 2) == {2, 3}
    assert repeated([1, 2, 3, 1, 2], 3) == {3}
    assert repeated([1, 2], 1) == {1, 2}
    assert repeated([1], 2) == repeated([], 1) == repeated([1, 1], 0) == set()
    assert repeated([1, 1], 2) == {1}


def test_eos_is_never_a_repetition():
    model = language_model()
    model.head.bias.data[EOS] = 1e3
    prompt = [[0, EOS, 4]]
    assert generate(model, prompt, max_new_tokens=5, eos=EOS, no_repeat=1) == [[]]
    assert beam_search(model, prompt, max_new_tokens=5, eos=EOS, no_repeat=1)[0][0].ended


def test_distributions_by_hand():
    scores = np.log([0.1, 0.4, 0.2, 0.3])
    close = {"rtol": 1e-12}  # a few operations of float64
    np.testing.assert_allclose(probabilities(scores), [0.1, 0.4, 0.2, 0.3], **close)
    np.testing.assert_allclose(probabilities(scores, top_k=2), [0, 4 / 7, 0, 3 / 7], **close)
    np.testing.assert_allclose(probabilities(scores, top_p=0.6), [0, 4 / 7, 0, 3 / 7], **close)
    np.testing.assert_allclose(probabilities(scores, top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9], **close)
    np.testing.assert_allclose(probabilities(scores, top_p=1e-9), [0, 1, 0, 0], **close)
    squares = np.array([1, 16, 4, 9]) / 30
    np.testing.assert_allclose(probabilities(scores, temperature=0.5), squares, **close)
    np.testing.assert_allclose(probabilities(scores, 0.5, top_k=3, top_p=0.7), [0, 16 / 25, 0, 9 / 25], **close)
    np.testing.assert_allclose(probabilities(np.array([5.0, 5.0, 5.0]), top_k=1), [1, 0, 0], **close)
    masked = np.array([-np.inf, 0.0, 0.0])
    np.testing.assert_allclose(probabilities(masked, top_k=3), [0, 0.5, 0.5], **close)


def test_draw_takes_the_share_in_which_the_point_lies():
    p = np.array([0.0, 0.25, 0.0, 0.75, 0.0])
    assert [draw(p, u) for u in (0.0, 0.2499, 0.25, 0.9999999999999999)] == [1, 1, 3, 3]


# ---------------------------------------------------------------------------------------------------- beam search


def every_text(model, row, length, room, alpha):
    """All texts that end in EOS within the room, or fill it, as (score, log-probability, words), best first."""
    texts, open_texts, log_p = [], np.zeros((1, 0), int), np.zeros(1)
    for n in range(1, room + 1):
        prompt = np.zeros((len(open_texts), 1), int) if isinstance(model, Translator) else PROMPTS[[row], :length]
        words = np.concatenate([np.broadcast_to(prompt, (len(open_texts), prompt.shape[1])), open_texts], axis=1)
        source = np.broadcast_to(PROMPTS[row, :length], (len(words), length))
        logits = (model(source, words) if isinstance(model, Translator) else model(words)).numpy()[:, -1]
        following = log_p[:, None] + logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        for i, word in itertools.product(range(len(words)), range(VOCABULARY)):
            if word == EOS or n == room:
                text = open_texts[i].tolist() + [word] * (word != EOS)
                texts.append((following[i, word] / penalty(n, alpha), following[i, word], text))
        others = [word for word in range(VOCABULARY) if word != EOS]
        open_texts = np.array([[*text, word] for text in open_texts.tolist() for word in others])
        log_p = following[:, others].reshape(-1)
    return sorted(texts, key=lambda text: -text[0])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("kind", MODELS)
def test_a_wide_beam_finds_what_enumeration_finds(kind, alpha):
    model, room = MODELS[kind]().to("numpy"), 3
    found = beam_search(model, PROMPTS, LENGTHS, beams=60, max_new_tokens=room, eos=EOS, length_penalty=alpha)
    for row, length in enumerate(LENGTHS):
        best = every_text(model, row, length, room, alpha)[:20]
        assert [text.tokens for text in found[row][:20]] == [words for _, _, words in best]
        np.testing.assert_allclose([t.score for t in found[row][:20]], [s for s, _, _ in best], rtol=1e-9)
        np.testing.assert_allclose([t.log_prob for t in found[row][:20]], [p for _, p, _ in best], rtol=1e-9)


def test_beams_with_and_without_cache_and_row_by_row(model):
    compare_beams(model, beams=3, no_repeat=2, eos=EOS)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("no_repeat", [0, 1, 2])
@pytest.mark.parametrize("eos", [EOS, None])
def test_beams_with_any_options(model_on_numpy, beams, no_repeat, eos):
    compare_beams(model_on_numpy, beams, no_repeat, eos)


def compare_beams(model, beams, no_repeat, eos):
    options = {"beams": beams, "max_new_tokens": 7, "eos": eos, "no_repeat": no_repeat}
    cached = beam_search(model, PROMPTS, LENGTHS, **options)
    plain = beam_search(model, PROMPTS, LENGTHS, use_cache=False, **options)
    for row, length in enumerate(LENGTHS):
        alone = beam_search(model, PROMPTS[row : row + 1, :length], **options)[0]
        for other in (plain[row], alone):
            assert [t.tokens for t in cached[row]] == [t.tokens for t in other]
            np.testing.assert_allclose([t.score for t in cached[row]], [t.score for t in other], rtol=1e-9)
        assert len(cached[row]) == beams
        scores = [t.score for t in cached[row]]
        assert scores == sorted(scores, reverse=True)
        if no_repeat == 1:
            assert all(len(set(t.tokens)) == len(t.tokens) for t in cached[row])


def test_one_beam_is_greedy(model):
    greedy = generate(model, PROMPTS, LENGTHS, max_new_tokens=6)
    assert [texts[0].tokens for texts in beam_search(model, PROMPTS, LENGTHS, beams=1, max_new_tokens=6)] == greedy


def test_scores_are_those_of_the_plain_forward_pass():
    model = language_model().to("numpy")
    for row, texts in enumerate(beam_search(model, PROMPTS, LENGTHS, beams=2, max_new_tokens=8, eos=EOS)):
        for text in texts:
            words = text.tokens + [EOS] * text.ended
            log_p = sum(
                math.log(next_probabilities(model, row, LENGTHS[row], words[:i])[word]) for i, word in enumerate(words)
            )
            assert text.log_prob == pytest.approx(log_p, rel=1e-9)
            assert text.score == pytest.approx(log_p / penalty(len(words), 0.6), rel=1e-9)


class Script:
    """A stand-in for a Session with given probabilities: the first word is 0 (eos) or 1, after 1 always 1 follows."""

    room = 4

    def __init__(self, *_arguments, **_options):
        self.texts = [[]]

    def __len__(self):
        return len(self.texts)

    def next_logits(self):
        return np.log([[0.6, 0.4] if not text else [0.01, 0.99] for text in self.texts])

    def history(self, row):
        return self.texts[row]

    new_words = history

    def select(self, rows):
        self.texts = [self.texts[row] for row in rows]

    def append(self, words):
        self.texts = [[*text, int(word)] for text, word in zip(self.texts, words, strict=True)]


@pytest.mark.parametrize("alpha, best", [(0.0, []), (2.0, [1, 1, 1, 1])])
def test_a_search_goes_on_while_something_better_can_come(monkeypatch, alpha, best):
    """Even a single beam must keep an open beginning beside a finished text (log 0.6 = -0.51), since the penalty may
    still favour the longer one: (log 0.4 + 3 log 0.99) / (9/6)² = -0.42."""
    monkeypatch.setattr("minitransformer.decoding.beam.Session", Script)
    assert beam_search(None, None, beams=1, eos=0, length_penalty=alpha)[0][0].tokens == best


def test_a_search_goes_on_for_the_second_best(monkeypatch):
    """[] is best and [1] complete early, but [1, 1, 1, 1] is the better second."""
    monkeypatch.setattr("minitransformer.decoding.beam.Session", Script)
    texts = beam_search(None, None, beams=2, eos=0, length_penalty=0.0)[0]
    assert [text.tokens for text in texts] == [[], [1, 1, 1, 1]]


# ---------------------------------------------------------------------------------------------------- cache, errors


def test_reading_in_pieces_is_reading_at_once(backend):
    model = language_model()
    ids = np.array([[0, 3, 4, 5, 6, 1], [1, 2, 3, 4, 5, 6]])
    whole = model.base(ids).numpy()
    for pieces in ((2, 3, 1), (1, 1, 4), (6,), (1,) * 6):
        cache, parts, start = Cache(2, 2, 8), [], 0
        for size in pieces:
            parts.append(model.base(ids[:, start : start + size], cache=cache).numpy())
            start += size
            cache.lengths += size
        np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-10, atol=1e-12)  # float64, other sizes
    with pytest.raises(ValueError, match="holds 8 positions"):
        model.base(ids[:, :3], cache=cache)


def test_the_cache_reads_each_word_once():
    """Otherwise it would be right and useless."""
    model, read = language_model(), []
    original = model.base.embedding.forward
    model.base.embedding.forward = lambda ids, starts=None: (read.append(ids.shape), original(ids, starts))[1]
    generate(model, PROMPTS, max_new_tokens=4)
    assert read == [(3, 4), (3, 1), (3, 1), (3, 1)]


def test_log_softmax_of_nothing():
    assert (log_softmax(np.full(3, -np.inf)) == -np.inf).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: generate(m, PROMPTS, max_new_tokens=13), "ask for at most 12"),
        (lambda m: generate(m, PROMPTS, max_new_tokens=0), "max_new_tokens must be at least 1"),
        (lambda m: generate(m, np.zeros((1, 16), int)), "nothing can follow"),
        (lambda m: generate(m, PROMPTS, [4, 2, 5]), r"lengths\[2\] is 5"),
        (lambda m: generate(m, [[7]]), r"ids\[0, 0\] is 7"),
        (lambda m: generate(m, PROMPTS, temperature=0.0), "temperature must be above 0"),
        (lambda m: generate(m, PROMPTS, top_k=0), "top_k must be at least 1"),
        (lambda m: generate(m, PROMPTS, top_p=1.5), "top_p must be above 0"),
        (lambda m: generate(m, PROMPTS, no_repeat=-1), "no_repeat must not be negative"),
        (lambda m: beam_search(m, PROMPTS, beams=0), "beams must be at least 1"),
        (lambda m: beam_search(m, PROMPTS, length_penalty=-1), "length_penalty must not be negative"),
        (lambda m: generate(translator(), PROMPTS, sos=7), "sos"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call(language_model())


def test_a_diverged_model_says_so():
    model = language_model()
    model.head.bias.data[0] = np.nan
    with pytest.raises(ValueError, match="diverged"):
        generate(model, PROMPTS)


def test_only_models_that_write():
    with pytest.raises(TypeError, match="not Classifier"):
        Session(Classifier.from_language_model(language_model()), PROMPTS)


def test_a_session_that_nobody_holds_is_gone_at_once():
    """Its keys and values are large; a circle of references would keep them until Python looks for circles."""
    session = Session(language_model(), PROMPTS[:1], max_new_tokens=3)
    session.append([int(session.next_logits()[0].argmax())])
    keys = weakref.ref(session.cache.layers[0].own[0])
    gc.disable()
    try:
        del session
        assert keys() is None
    finally:
        gc.enable()

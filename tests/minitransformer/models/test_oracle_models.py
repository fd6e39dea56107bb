"""Layers, models and optimizers against PyTorch, weight for weight, in float64.

Tolerances: both sides compute the same sums in another order; with some thousand float64 operations per number the
difference stays below 1e-11 of values of size 1."""

import numpy as np
import pytest

from autograd import Tensor
from minitransformer import optim
from minitransformer.config import Config
from minitransformer.layers import DecoderLayer, EncoderLayer, MultiheadAttention
from minitransformer.models import LanguageModel, Translator
from minitransformer.module import Init

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here: make test-oracles installs it")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("backend")]

B, T, S, C, H, F = 2, 5, 7, 12, 3, 9
CLOSE = {"rtol": 1e-10, "atol": 1e-11}
FLOAT64 = Init(0, "float64")


def sizes(activation, norm_first):
    return Config(d_model=C, n_heads=H, d_ff=F, activation=activation, norm_first=norm_first)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def randomise(module):
    """Biases and norms start at 0 and 1, where a mistake would not show."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype) * 0.3)
    return module.double()


def take_over(ours, theirs):
    """Same names, same shapes: strict loading is itself the test that they map one to one."""
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)


def padding_mask(lengths, size):
    return torch.arange(size)[None] >= torch.tensor(lengths)[:, None]  # True: padding


def causal_mask(size):
    return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)


def compare(ours, theirs, our_inputs, their_inputs, our_output, their_output, rows=None):
    """Outputs and all gradients, for a random direction of the output; `rows` marks the positions that count."""
    weight = numbers(*our_output.shape, seed=9)
    if rows is not None:
        weight = weight * rows[..., None]
    where = slice(None) if rows is None else rows
    np.testing.assert_allclose(our_output.numpy()[where], their_output.detach().numpy()[where], **CLOSE)
    (our_output * weight).sum().backward()
    (their_output * torch.tensor(weight)).sum().backward()
    for mine, other in zip(our_inputs, their_inputs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), **CLOSE)
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), gradients[name].numpy(), err_msg=name, **CLOSE)


def both(*shape, seed=0):
    values = numbers(*shape, seed=seed)
    return Tensor(values.copy(), requires_grad=True), torch.tensor(values, requires_grad=True)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 3]])
def test_encoder_layer(norm_first, activation, causal, lengths):
    theirs = randomise(
        torch.nn.TransformerEncoderLayer(C, H, F, 0.0, activation, batch_first=True, norm_first=norm_first)
    )
    ours = EncoderLayer(sizes(activation, norm_first), init=FLOAT64)
    take_over(ours, theirs)
    x, y = both(B, T, C)
    mask = causal_mask(T) if causal else None
    padding = None if lengths is None else padding_mask(lengths, T)
    expected = theirs(y, src_mask=mask, src_key_padding_mask=padding, is_causal=causal)
    compare(ours, theirs, [x], [y], ours(x, causal, lengths), expected)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("lengths", [None, [7, 2]])
def test_decoder_layer(norm_first, activation, lengths):
    theirs = randomise(
        torch.nn.TransformerDecoderLayer(C, H, F, 0.0, activation, batch_first=True, norm_first=norm_first)
    )
    ours = DecoderLayer(sizes(activation, norm_first), init=FLOAT64)
    take_over(ours, theirs)
    (x, y), (memory, memory_2) = both(B, T, C), both(B, S, C, seed=1)
    padding = None if lengths is None else padding_mask(lengths, S)
    expected = theirs(y, memory_2, tgt_mask=causal_mask(T), memory_key_padding_mask=padding, tgt_is_causal=True)
    got = ours(x, memory, memory_lengths=lengths)
    compare(ours, theirs, [x, memory], [y, memory_2], got, expected)


@pytest.mark.parametrize("lengths", [None, [7, 2]])
def test_attention_to_a_memory(lengths):
    theirs = randomise(torch.nn.MultiheadAttention(C, H, batch_first=True))
    ours = MultiheadAttention(C, H, init=FLOAT64)
    take_over(ours, theirs)
    (x, y), (memory, memory_2) = both(B, T, C), both(B, S, C, seed=1)
    padding = None if lengths is None else padding_mask(lengths, S)
    expected, _ = theirs(y, memory_2, memory_2, key_padding_mask=padding)
    compare(ours, theirs, [x, memory], [y, memory_2], ours(x, memory, key_lengths=lengths), expected)


def test_a_stack_with_its_closing_norm():
    layer = torch.nn.TransformerEncoderLayer(C, H, F, 0.0, "gelu", batch_first=True, norm_first=True)
    theirs = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(C), enable_nested_tensor=False)
    randomise(theirs)
    model = LanguageModel(5, C, H, 2, F, norm_first=True, activation="gelu", dtype="float64")
    ours = model.base.encoder
    take_over(ours, theirs)
    x, y = both(B, T, C)
    compare(ours, theirs, [x], [y], ours(x, is_causal=True), theirs(y, mask=causal_mask(T), is_causal=True))


class TheLabsModel(torch.nn.Module):
    """The language model of the first lab, with PyTorch's own layers."""

    def __init__(self, vocabulary, positions):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, C)
        layer = torch.nn.TransformerEncoderLayer(C, H, F, 0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(C, vocabulary)
        self.positions = torch.tensor(positions)

    def forward(self, ids):
        x = self.embedding(ids) * C**0.5 + self.positions[: ids.shape[1]]
        return self.head(self.encoder(x, mask=causal_mask(ids.shape[1]), is_causal=True))


def test_the_labs_language_model():
    """Logits, loss with ignored targets and label smoothing, and every gradient."""
    ours = LanguageModel(11, C, H, 2, F, max_len=T, dtype="float64")
    theirs = randomise(TheLabsModel(11, ours.base.embedding.positions.weight.numpy()))
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    ours.load_state_dict({name if name.startswith("head") else f"base.{name}": v for name, v in state.items()})
    ids, targets = np.random.default_rng(0).integers(0, 11, (2, B, T))
    logits = theirs(torch.tensor(ids))
    np.testing.assert_allclose(ours(ids).numpy(), logits.detach().numpy(), **CLOSE)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(targets).flatten(), ignore_index=3, label_smoothing=0.1
    )
    expected.backward()
    loss = ours.loss(ids, targets, ignore_index=3, label_smoothing=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        theirs_grad = gradients[name.removeprefix("base.")]
        np.testing.assert_allclose(parameter.grad.numpy(), theirs_grad, err_msg=name, **CLOSE)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # an option nn.Transformer sets and then warns about
@pytest.mark.parametrize("norm_first", [False, True])
def test_translator_stacks(norm_first):
    """nn.Transformer's encoder and decoder with our embeddings. It norms at the end in both modes; the paper and this
    project only in pre-norm mode."""
    theirs = torch.nn.Transformer(C, H, 2, 2, F, 0.0, "relu", batch_first=True, norm_first=norm_first)
    if not norm_first:
        theirs.encoder.norm = theirs.decoder.norm = None
    randomise(theirs)
    ours = Translator(6, 8, C, H, 2, 2, F, norm_first=norm_first, dtype="float64")
    state = ours.state_dict() | {name: value.numpy() for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    rng = np.random.default_rng(0)
    source, target, lengths = rng.integers(0, 6, (B, S)), rng.integers(0, 8, (B, T)), [7, 3]
    x = torch.tensor(ours.source_embedding(source).numpy())
    y = torch.tensor(ours.target_embedding(target).numpy())
    padding = padding_mask(lengths, S)
    hidden = theirs(
        x, y, tgt_mask=causal_mask(T), src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True
    ).detach()
    expected = hidden.numpy() @ ours.head.weight.numpy().T + ours.head.bias.numpy()
    np.testing.assert_allclose(ours(source, target, lengths).numpy(), expected, **CLOSE)


OPTIMIZERS = [
    (optim.Adam, "Adam", {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}),
    (optim.Adam, "Adam", {"lr": 0.1, "weight_decay": 0.1}),
    (optim.AdamW, "AdamW", {"lr": 0.1}),
    (optim.AdamW, "AdamW", {"lr": 0.1, "weight_decay": 0.3}),
    (optim.SGD, "SGD", {"lr": 0.1}),
    (optim.SGD, "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
]


@pytest.mark.parametrize("kind, name, options", OPTIMIZERS)
def test_optimizers(kind, name, options):
    """Five steps, the middle one without a gradient for one of the two weights, with clipping before each."""
    values = [numbers(3, 4), numbers(5, seed=1)]
    ours = [Tensor(v.copy(), requires_grad=True) for v in values]
    theirs = [torch.tensor(v, requires_grad=True) for v in values]
    mine, other = kind(ours, **options), getattr(torch.optim, name)(theirs, **options)
    for step in range(5):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            skip = step == 2 and i == 1
            gradient = numbers(*p.shape, seed=10 + 2 * step + i)
            p.grad = None if skip else Tensor(gradient.copy())
            q.grad = None if skip else torch.tensor(gradient)
        norm, norm_2 = optim.clip_grad_norm(ours, 2.0), torch.nn.utils.clip_grad_norm_(theirs, 2.0)
        assert norm == pytest.approx(norm_2.item(), rel=1e-12)
        mine.step()
        other.step()
        for p, q in zip(ours, theirs, strict=True):
            # PyTorch clips by max_norm / (norm + 1e-6): a relative difference of 1e-6 / norm, norm being 3 to 5
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind, name, options", OPTIMIZERS)
def test_optimizers_without_clipping(kind, name, options):
    value = numbers(3, 4)
    ours, theirs = Tensor(value.copy(), requires_grad=True), torch.tensor(value, requires_grad=True)
    mine, other = kind([ours], **options), getattr(torch.optim, name)([theirs], **options)
    for step in range(5):
        gradient = numbers(3, 4, seed=10 + step)
        ours.grad, theirs.grad = Tensor(gradient.copy()), torch.tensor(gradient)
        mine.step()
        other.step()
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-13)  # ten operations


def learning_rates(schedulers, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = schedulers(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def test_warmup_and_cosine():
    """PyTorch counts from 0, this project from 1."""
    lr = torch.optim.lr_scheduler
    warmup, total = 4, 20
    rates = learning_rates(
        lambda o: lr.SequentialLR(
            o,
            [lr.LinearLR(o, 1 / warmup, 1.0, warmup - 1), lr.CosineAnnealingLR(o, total - warmup, eta_min=0.1)],
            [warmup - 1],
        ),
        total,
    )
    factor = optim.warmup_cosine(warmup, total, floor=0.1)
    # PyTorch's cosine is a recursion over the steps, whose rounding errors add up
    np.testing.assert_allclose([factor(step) for step in range(1, total + 1)], rates, rtol=1e-9)


def test_inverse_square_root():
    factor = optim.inverse_square_root(4)
    rates = learning_rates(
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: 2 * min((n + 1) ** -0.5, (n + 1) * 4**-1.5)), 30
    )
    np.testing.assert_allclose([factor(step) for step in range(1, 31)], rates, rtol=1e-12)

"""Modules and layers: names, state, moves between backends, dropout masks, and positions."""

import math

import numpy as np
import pytest

import autograd.functional as F
import kernels
from autograd import Tensor
from minitransformer import LanguageModel
from minitransformer.config import Config
from minitransformer.layers import (
    DecoderLayer,
    Dropout,
    EncoderLayer,
    Head,
    LayerNorm,
    Linear,
    MultiheadAttention,
    Stack,
    rows_at,
)
from minitransformer.module import DropoutSeeds, Init, Module, Parameter
from minitransformer.positions import Positions, positional_encoding


class Pair(Module):
    def __init__(self, seed=0):
        init = Init(seed)
        self.layers = [Linear(3, 4, init=init), LayerNorm(4, init=init)]
        self.tied = Head(3, 4, tied=self.layers[0].weight, init=init)
        self.constant = Tensor(np.ones(2, np.float32))


def sizes(d_model, n_heads, d_ff, **choices):
    return Config(d_model=d_model, n_heads=n_heads, d_ff=d_ff, **choices)


def input_of(*shape, seed=0, dtype=np.float32):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


# ---------------------------------------------------------------------------------------------------- Module


def test_names_are_paths_and_tied_weights_stand_once():
    model = Pair()
    assert list(model.state_dict()) == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "tied.bias",
    ]  # fmt: skip
    assert [name for name, _ in model.named_parameters()] == list(model.state_dict())
    assert model.num_parameters() == 12 + 4 + 4 + 4 + 4 == sum(p.size for p in model.parameters())


def test_state_dict_is_a_copy_and_comes_back():
    one, other = Pair(seed=1), Pair(seed=2)
    state = one.state_dict()
    other.load_state_dict(state)
    assert all(np.array_equal(other.state_dict()[name], value) for name, value in state.items())
    state["layers.0.weight"][:] = 7
    assert not (one.layers[0].weight.numpy() == 7).any()
    assert not (other.layers[0].weight.numpy() == 7).any()
    assert other.tied.weight is other.layers[0].weight


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s.pop("layers.0.bias"), "layers.0.bias is missing"),
        (lambda s: s.update(extra=np.ones(1)), "extra is unknown here"),
        (lambda s: s.update({"tied.bias": np.ones(5)}), r"tied.bias has shape \(5,\), expected \(4,\)"),
        (lambda s: s.update({"tied.bias": np.ones(4, int)}), "tied.bias holds int64, expected floats"),
        (lambda s: s.update({"tied.weight": np.ones((4, 3))}), "tied.weight differs from layers.0.weight"),
    ],
)
def test_wrong_states_are_refused_whole(change, message):
    model = Pair(seed=1)
    before, state = model.state_dict(), Pair(seed=2).state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(state)
    assert all(np.array_equal(value, before[name]) for name, value in model.state_dict().items())


def test_all_faults_are_named_at_once():
    with pytest.raises(ValueError, match=r"layers.0.weight is missing.*; other is unknown"):
        Pair().load_state_dict({"other": np.ones(1)})


def test_second_names_of_a_tied_weight_may_be_there():
    model, state = Pair(seed=1), Pair(seed=2).state_dict()
    state["tied.weight"] = state["layers.0.weight"]
    model.load_state_dict(state)
    assert np.array_equal(model.tied.weight.numpy(), state["layers.0.weight"])


def test_moving_keeps_every_bit_and_the_way_back():
    model = Pair()
    home = model.backend.name
    model.layers[0].weight.grad = Tensor(np.full((4, 3), 0.1, np.float32))
    before = model.state_dict()
    weight = model.layers[0].weight
    for name in (*kernels.available(), home):
        assert model.to(name) is model
        assert model.backend.name == name and model.constant.backend.name == name
        assert model.layers[0].weight is weight and weight.grad.backend.name == name
        assert all(value.tobytes() == before[n].tobytes() for n, value in model.state_dict().items())
        assert model.layers[0](Tensor(np.ones((1, 3), np.float32), backend=kernels.backend(name))).backend.name == name


def test_train_and_eval_reach_every_module():
    model = Pair()
    assert model.eval() is model and not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())


def test_frozen_weights_stay_parameters():
    model = Pair().requires_grad_(False)
    assert len(model.parameters()) == 5 and not any(p.requires_grad for p in model.parameters())
    assert len(model.state_dict()) == 5


def test_zero_grad():
    model = Pair()
    for parameter in model.parameters():
        parameter.grad = Tensor(np.zeros(parameter.shape, np.float32))
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


# ---------------------------------------------------------------------------------------------------- initial weights


def test_initial_weights_come_from_the_seed_alone():
    one, same, other = Pair(3).state_dict(), Pair(3).state_dict(), Pair(4).state_dict()
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    assert not np.array_equal(one["layers.0.weight"], other["layers.0.weight"])


def test_float32_weights_are_the_float64_weights_rounded():
    wide, narrow = Linear(50, 60, init=Init(0, "float64")), Linear(50, 60, init=Init(0, "float32"))
    assert np.array_equal(wide.weight.numpy().astype(np.float32), narrow.weight.numpy())


def test_initial_ranges():
    """The largest of n uniform numbers lies within 1 % of the bound but for a chance of 0.99^n < 1e-8 here."""
    C, F_ = 64, 96
    layer = EncoderLayer(sizes(C, 4, F_))
    for tensor, bound in [
        (layer.self_attn.in_proj_weight, math.sqrt(6 / (4 * C))),
        (layer.self_attn.out_proj.weight, 1 / math.sqrt(C)),
        (layer.linear1.weight, 1 / math.sqrt(C)),
        (layer.linear2.weight, 1 / math.sqrt(F_)),
        (Head(C, 50).weight, 0.1),
    ]:
        largest = np.abs(tensor.numpy()).max()
        assert 0.99 * bound < largest <= bound * (1 + 1e-7)
    for zero in (layer.self_attn.in_proj_bias, layer.self_attn.out_proj.bias, layer.norm1.bias, Head(C, 50).bias):
        assert not zero.numpy().any()
    assert layer.linear1.bias.numpy().any() and (layer.norm1.weight.numpy() == 1).all()


def test_without_a_seed_no_memory_is_taken():
    layer = Linear(100_000, 100_000, init=Init(None))  # 40 GB, if it had values
    assert layer.num_parameters() == 100_000 * 100_001


# ---------------------------------------------------------------------------------------------------- dropout


def test_dropout_masks_follow_seed_and_count():
    def masks(seed, skip=0):
        init = Init(seed)
        init.dropout_seeds.counter = skip
        layer = Dropout(0.5, init=init)
        x = Tensor(np.ones(64, np.float32))
        return [layer(x).numpy().tobytes() for _ in range(4)]

    one = masks(5)
    assert len(set(one)) == 4  # every call another mask
    assert masks(5) == one and masks(5, skip=2)[:2] == one[2:]
    assert not set(one) & set(masks(6))


def test_seeds_are_63_bits_and_differ():
    seeds = DropoutSeeds(0)
    drawn = [seeds.next() for _ in range(1000)]
    assert len(set(drawn)) == 1000 and all(0 <= s < 2**63 for s in drawn)
    assert max(drawn) > 2**62  # the upper bits move as well


def test_dropout_rests_in_eval_and_draws_nothing():
    init = Init(0)
    layer = EncoderLayer(sizes(8, 2, 8, dropout=0.5), init=init)
    x = input_of(1, 3, 8)
    dropped = layer(x).numpy()
    used = init.dropout_seeds.counter
    assert used == 4  # attention weights, after attention, inside feed-forward, after feed-forward
    layer.eval()
    assert layer(x).numpy().tobytes() == layer(x).numpy().tobytes() != dropped.tobytes()
    assert init.dropout_seeds.counter == used


def test_training_and_eval_agree_without_dropout():
    """The fused and the unfused feed-forward compute the same."""
    layer = EncoderLayer(sizes(8, 2, 8), init=Init(0, "float64"))
    x = input_of(1, 3, 8, dtype=np.float64)
    fused = layer(x).numpy()
    first, second = layer.linear1, layer.linear2
    normed = layer.norm1(x + layer.self_attn(x))
    apart = layer.norm2(normed + second(F.relu(first(normed)))).numpy()
    np.testing.assert_allclose(fused, apart, rtol=1e-12, atol=1e-13)  # float64, a few hundred operations


# ---------------------------------------------------------------------------------------------------- attention


def attention_by_loops(layer, x, memory, causal, lengths):
    """One head, one query at a time."""
    C, H = layer.embed_dim, layer.num_heads
    D = C // H
    W, b = layer.in_proj_weight.numpy(), layer.in_proj_bias.numpy()
    out = np.zeros_like(x)
    for n in range(len(x)):
        q, k, v = (source @ W[i * C : (i + 1) * C].T + b[i * C : (i + 1) * C] for i, source in
                   enumerate((x[n], memory[n], memory[n])))  # fmt: skip
        for h in range(H):
            part = slice(h * D, (h + 1) * D)
            for t in range(x.shape[1]):
                seen = min(t + 1 if causal else k.shape[0], lengths[n])
                e = np.exp(k[:seen, part] @ q[t, part] / math.sqrt(D))
                out[n, t, part] = (e / e.sum()) @ v[:seen, part]
    return out @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_attention_is_what_the_loops_say(backend, causal, cross):
    layer = MultiheadAttention(6, 3, init=Init(1, "float64"))
    for bias in (layer.in_proj_bias, layer.out_proj.bias):  # they start at zero, where a lost one would not show
        bias.data[...] = np.random.default_rng(0).standard_normal(bias.shape)
    x = input_of(2, 4, 6, dtype=np.float64)
    memory = input_of(2, 4, 6, seed=1, dtype=np.float64) if cross else None
    lengths = np.array([4, 2])
    got = layer(x, memory, is_causal=causal, key_lengths=lengths).numpy()
    expected = attention_by_loops(layer, x.numpy(), (x if memory is None else memory).numpy(), causal, lengths)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)  # float64, under a hundred operations


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 3, 1]])
def test_one_position_alone_is_what_it_is_among_the_others(backend, norm_first, causal, lengths):
    """The last layer asked for one position of each row: values and every gradient as if all had been computed."""
    init = Init(3, "float64")
    config = sizes(6, 2, 5, norm_first=norm_first)
    stack = Stack([EncoderLayer(config, init=init) for _ in range(2)], config, init=init)
    positions, options = np.array([4, 2, 0]), {"is_causal": causal, "key_lengths": lengths}
    outcome = []
    for only in (None, positions):
        x = Parameter(input_of(3, 5, 6, dtype=np.float64).numpy())
        stack.zero_grad()
        y = stack(x, only=only, **options)
        read = rows_at(y, positions) if only is None else y
        assert read.shape == (3, 1, 6)
        (read * input_of(3, 1, 6, seed=2, dtype=np.float64)).sum().backward()
        outcome.append([read.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in stack.parameters())])
    for whole, alone in zip(*outcome, strict=True):
        np.testing.assert_allclose(alone, whole, rtol=1e-9, atol=1e-12)  # the same sums in another order


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_shapes_and_gradients_reach_everything(norm_first):
    layer = DecoderLayer(sizes(6, 2, 5, norm_first=norm_first))
    memory = Parameter(input_of(2, 3, 6, seed=1).numpy())
    y = layer(input_of(2, 4, 6), memory, memory_lengths=[3, 1])
    assert y.shape == (2, 4, 6)
    (y * input_of(2, 4, 6, seed=2)).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())
    assert not memory.grad.numpy()[1, 1:].any() and memory.grad.numpy()[1, 0].any()


@pytest.mark.parametrize(
    "call",
    [
        lambda: MultiheadAttention(10, 3),
        lambda: EncoderLayer(sizes(4, 2, 4, activation="swish")),
        lambda: Dropout(1.0),
        lambda: Init(0, "float16"),
        lambda: Init(-1),
        lambda: positional_encoding(0, 4),
        lambda: Positions(4, 4, "spiral", init=Init()),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(ValueError):
        call()


# ---------------------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_positional_encoding_entry_by_entry(d_model):
    table = positional_encoding(50, d_model)
    assert table.shape == (50, d_model) and table.dtype == np.float64
    for position in (0, 1, 7, 49):
        for column in range(d_model):
            angle = position / 10000 ** (2 * (column // 2) / d_model)
            wave = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table[position, column] == pytest.approx(wave, abs=1e-14)  # a last place of the angle, at most 49


def test_fixed_positions_are_no_parameters_and_learned_ones_are():
    fixed, learned = Positions(9, 4, init=Init()), Positions(9, 4, "learned", init=Init())
    assert fixed.num_parameters() == 0 and not fixed.state_dict()
    assert learned.num_parameters() == 36
    starts = np.array([2, 5])
    for table in (fixed, learned):
        full = table.weight.numpy()
        assert np.array_equal(table(3).numpy(), full[:3])
        assert np.array_equal(table(2, starts).numpy(), np.stack([full[2:4], full[5:7]]))


def test_a_model_shows_its_parts():
    model = LanguageModel(vocab_size=50, d_model=8, n_heads=2, n_layers=3, d_ff=16, tie_weights=True)
    lines = repr(model).splitlines()
    assert (
        lines[0] == f"LanguageModel: {model.num_parameters():,} parameters in 38 arrays, backend {model.backend.name}"
    )
    assert (
        "      layers.0 to 2: EncoderLayer" in lines and "        linear1: Linear  weight (16, 8), bias (16,)" in lines
    )
    assert sum("norm" in line for line in lines) == 2  # equal layers are told once, equal parts of a layer are not


def test_modules_have_names():
    model = LanguageModel(vocab_size=5, d_model=4, n_heads=1, n_layers=2, d_ff=4)
    named = dict(model.named_modules())
    assert named[""] is model and named["base.encoder.layers.1.norm2"] is model.base.encoder.layers[1].norm2
    assert list(model.modules()) == list(named.values())
    assert list(model.children()) == [model.base, model.head]


# ---------------------------------------------------------------------------------------------------- today's parts


def rotary_attention(G=None, seed=0):
    return MultiheadAttention(8, 2, num_kv_heads=G, rotary_base=100.0, init=Init(seed, "float64"))


def test_grouped_heads_are_full_heads_with_repeated_keys_and_values(backend):
    """G = 1 of 2: the same as two heads of keys and values whose weights are copies."""
    grouped, full = rotary_attention(G=1), rotary_attention()
    weight = grouped.in_proj_weight.numpy()
    q, k, v = weight[:8], weight[8:12], weight[12:]
    repeated = np.concatenate([q, k, k, v, v])
    full.load_state_dict(
        grouped.state_dict() | {"in_proj_weight": repeated, "in_proj_bias": np.zeros(24)},
    )
    x = input_of(2, 5, 8, dtype=np.float64)
    # sums of 8 products in another order
    np.testing.assert_allclose(grouped(x, is_causal=True).numpy(), full(x, is_causal=True).numpy(), rtol=1e-12)
    assert weight.shape == (8 + 2 * 4, 8)


def test_starts_say_where_the_queries_stand(backend):
    """Queries that stand at the beginning give what self-attention gives; three places later, something else."""
    layer, x = rotary_attention(), input_of(1, 4, 8, dtype=np.float64)
    plain = layer(x).numpy()
    moved = layer(x, x, starts=np.array([0])).numpy()
    np.testing.assert_allclose(moved, plain, rtol=1e-12)  # another product, the same sums
    assert np.abs(layer(x, x, starts=np.array([3])).numpy() - plain).max() > 1e-3


def test_only_one_position_is_turned_by_its_own_angle(backend):
    config = sizes(8, 2, 6, positions="rotary", n_kv_heads=1)
    layer, x = EncoderLayer(config, init=Init(0, "float64")), input_of(2, 5, 8, dtype=np.float64)
    whole = layer(x, is_causal=True).numpy()
    one = layer(x, is_causal=True, only=np.array([4, 2])).numpy()
    np.testing.assert_allclose(one[:, 0], whole[[0, 1], [4, 2]], rtol=1e-12)  # sums in another order


def test_without_biases_nothing_adds_one():
    layer = EncoderLayer(sizes(8, 2, 6, bias=False))
    assert not any("bias" in name for name in layer.state_dict())
    gated = EncoderLayer(sizes(8, 2, 6, activation="swiglu"))
    assert {"gate.weight", "gate.bias"} <= set(gated.state_dict())

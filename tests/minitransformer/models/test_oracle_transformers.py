"""GPT-2, BERT and Llama as settings of our models, against the package transformers with random weights: outputs, and
the gradients of every weight, in float64."""

import numpy as np
import pytest

from minitransformer.models import Bert, LanguageModel
from minitransformer.positions import interleaved_rows

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here: make test-oracles installs it")
transformers = pytest.importorskip("transformers", reason="an oracle that make test-oracles installs")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("backend")]

V, C, H, G, F, L, T = 11, 24, 6, 2, 20, 2, 7
SIZES = {
    "d_model": C,
    "n_heads": H,
    "n_layers": L,
    "d_ff": F,
    "max_len": 9,
    "dtype": "float64",
    "scale_embedding": False,
}
IDS = np.random.default_rng(0).integers(1, V, (3, T))  # 0 is padding for BERT, which gives it no gradient
# Both sides compute the same sums in another order: some thousand float64 operations for each number.
EXACT = {"rtol": 1e-9, "atol": 1e-10}
# transformers forms the angles of rotary positions and RMS norms in float32, whatever the model's dtype: a few
# roundings of 6e-8 in each of 5 norms and 2 turns, before sums of up to 24 terms.
IN_FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}


def gpt2(theirs):
    """Our names and layouts. `theirs` has their arrays by name: weights, or gradients. GPT-2 stores (in, out)."""
    ours = {
        "base.embedding.weight": theirs["transformer.wte.weight"],
        "base.embedding.positions.weight": theirs["transformer.wpe.weight"],
        "base.encoder.norm.weight": theirs["transformer.ln_f.weight"],
        "base.encoder.norm.bias": theirs["transformer.ln_f.bias"],
    }
    names = {"attn.c_attn": "self_attn.in_proj_", "attn.c_proj": "self_attn.out_proj.", "mlp.c_fc": "linear1.",
             "mlp.c_proj": "linear2.", "ln_1": "norm1.", "ln_2": "norm2."}  # fmt: skip
    for i in range(L):
        for their_name, our_name in names.items():
            for part in ("weight", "bias"):
                array = theirs[f"transformer.h.{i}.{their_name}.{part}"]
                ours[f"base.encoder.layers.{i}.{our_name}{part}"] = array.T
    return ours


def bert(theirs):
    ours = {"embedding.weight": theirs["embeddings.word_embeddings.weight"],
            "embedding.positions.weight": theirs["embeddings.position_embeddings.weight"],
            "segments.weight": theirs["embeddings.token_type_embeddings.weight"]}  # fmt: skip
    names = {"attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1",
             "intermediate.dense": "linear1", "output.dense": "linear2", "output.LayerNorm": "norm2"}  # fmt: skip
    for part in ("weight", "bias"):
        ours[f"norm.{part}"] = theirs[f"embeddings.LayerNorm.{part}"]
        for i in range(L):
            layer, our_layer = f"encoder.layer.{i}.", f"encoder.layers.{i}."
            parts = [theirs[f"{layer}attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            ours[f"{our_layer}self_attn.in_proj_{part}"] = np.concatenate(parts)
            for their_name, our_name in names.items():
                ours[f"{our_layer}{our_name}.{part}"] = theirs[f"{layer}{their_name}.{part}"]
    return ours


def llama(theirs):
    ours = {"base.embedding.weight": theirs["model.embed_tokens.weight"], "head.weight": theirs["lm_head.weight"],
            "base.encoder.norm.weight": theirs["model.norm.weight"]}  # fmt: skip
    names = {"self_attn.o_proj": "self_attn.out_proj", "mlp.gate_proj": "gate", "mlp.up_proj": "linear1",
             "mlp.down_proj": "linear2", "input_layernorm": "norm1", "post_attention_layernorm": "norm2"}  # fmt: skip
    for i in range(L):
        layer, our_layer = f"model.layers.{i}.", f"base.encoder.layers.{i}."
        q, k, v = (theirs[f"{layer}self_attn.{name}_proj.weight"] for name in "qkv")
        rows = [interleaved_rows(q, H), interleaved_rows(k, G), v]
        ours[f"{our_layer}self_attn.in_proj_weight"] = np.concatenate(rows)
        for their_name, our_name in names.items():
            ours[f"{our_layer}{our_name}.weight"] = theirs[f"{layer}{their_name}.weight"]
    return ours


def randomised(model):
    """Biases and norms start at 0 and 1, where a mistake would not show."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
    return model.double().eval()


def compare(ours, theirs, renamed, our_output, their_output, close, heads=()):
    """`heads`: weights of ours that the output does not go through."""
    state = renamed({name: p.detach().numpy() for name, p in theirs.named_parameters(remove_duplicate=False)})
    ours.load_state_dict(state | {name: ours.state_dict()[name] for name in heads})
    mine, other = our_output(), their_output()
    np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), **close)
    weight = np.random.default_rng(1).standard_normal(mine.shape)
    (mine * weight).sum().backward()
    (other * torch.tensor(weight)).sum().backward()
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters(remove_duplicate=False)}
    expected = renamed(gradients)
    for name, parameter in ours.named_parameters():
        if name not in heads:
            np.testing.assert_allclose(parameter.grad.numpy(), expected[name], err_msg=name, **close)


def test_gpt2():
    settings = transformers.GPT2Config(
        vocab_size=V, n_positions=9, n_embd=C, n_layer=L, n_head=H, n_inner=F, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, attn_implementation="eager",
    )  # fmt: skip
    theirs = randomised(transformers.GPT2LMHeadModel(settings))
    ours = LanguageModel(
        V, **SIZES, norm_first=True, activation="gelu_tanh", positions="learned", tie_weights=True, head_bias=False
    )
    logits = lambda: theirs(input_ids=torch.tensor(IDS)).logits  # noqa: E731
    compare(ours, theirs, gpt2, lambda: ours(IDS), logits, EXACT)


def bert_settings():
    return transformers.BertConfig(
        vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, intermediate_size=F,
        max_position_embeddings=9, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )  # fmt: skip


def test_bert():
    settings = bert_settings()
    theirs = randomised(transformers.BertModel(settings, add_pooling_layer=False))
    ours = Bert(V, **SIZES, norm_eps=settings.layer_norm_eps)
    segments, lengths = IDS % 2, np.array([7, 4, 6])
    real = np.arange(T) < lengths[:, None]

    def their_hidden():
        tensors = (torch.tensor(a) for a in (IDS, segments, real.astype(int)))
        given = dict(zip(("input_ids", "token_type_ids", "attention_mask"), tensors, strict=True))
        return theirs(**given).last_hidden_state[torch.tensor(real)]

    heads = [name for name, _ in ours.named_parameters() if name.startswith(("word_head", "next_head"))]
    compare(ours, theirs, bert, lambda: ours.hidden(IDS, segments, lengths)[real], their_hidden, EXACT, heads)


def test_bert_with_its_heads():
    """Both heads as published: words from a dense layer, GELU and a norm; what follows from the pooled first place."""
    settings = bert_settings()
    theirs = randomised(transformers.BertForPreTraining(settings))
    ours = Bert(V, **SIZES, norm_eps=settings.layer_norm_eps, tie_weights=True, heads="deep")
    names = {"cls.predictions.transform.dense": "word_dense", "cls.predictions.transform.LayerNorm": "word_norm",
             "bert.pooler.dense": "next_dense", "cls.seq_relationship": "next_head"}  # fmt: skip

    def renamed(arrays):
        state = bert({name.removeprefix("bert."): array for name, array in arrays.items()})
        for their_name, our_name in names.items():
            for part in ("weight", "bias"):
                state[f"{our_name}.{part}"] = arrays[f"{their_name}.{part}"]
        return state | {"word_head.bias": arrays["cls.predictions.bias"]}

    segments = IDS % 2

    def ours_joined():
        words, following = ours(IDS, segments)
        return words.sum(axis=1) * following[:, :1]  # a number that both heads have a part in

    def theirs_joined():
        out = theirs(input_ids=torch.tensor(IDS), token_type_ids=torch.tensor(segments))
        return out.prediction_logits.sum(dim=1) * out.seq_relationship_logits[:, :1]

    compare(ours, theirs, renamed, ours_joined, theirs_joined, EXACT)


def test_llama():
    settings = transformers.LlamaConfig(
        vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=G,
        intermediate_size=F, max_position_embeddings=9, rms_norm_eps=1e-4, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0}, attn_implementation="eager",
    )  # fmt: skip
    theirs = randomised(transformers.LlamaForCausalLM(settings))
    ours = LanguageModel(
        V, **SIZES, norm_first=True, norm="rms", norm_eps=1e-4, activation="swiglu", positions="rotary",
        rotary_base=500.0, n_kv_heads=G, bias=False, head_bias=False,
    )  # fmt: skip
    logits = lambda: theirs(input_ids=torch.tensor(IDS)).logits  # noqa: E731
    compare(ours, theirs, llama, lambda: ours(IDS), logits, IN_FLOAT32)

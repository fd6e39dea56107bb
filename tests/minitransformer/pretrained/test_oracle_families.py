"""Small random models made and saved by `transformers`, loaded by us, and the other way round: outputs, and the
gradient of every weight."""

import copy

import numpy as np
import pytest
from small_models import IDS, MAKERS, SOUND, TARGET, G, outputs, small
from small_models import C as WIDTH
from small_models import F as INNER
from small_models import H as HEADS
from small_models import L as LAYERS
from small_models import V as WORDS

import kernels
from minitransformer.pretrained import load, save_pretrained
from minitransformer.pretrained.loading import family_of
from minitransformer.pretrained.renaming import Piece

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here: make test-oracles installs it")
transformers = pytest.importorskip("transformers", reason="an oracle that make test-oracles installs")
pytestmark = pytest.mark.oracle

# float32 on both sides: sums of up to 31 terms through at most five layers, each rounded to 6e-8
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
EPS = np.finfo(np.float32).eps
STACK = {"vocab_size": WORDS, "attn_implementation": "eager"}
PAIR = {
    **STACK, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "dropout": 0.0,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip


def bert_config(**more):
    return transformers.BertConfig(
        **STACK, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **more,
    )  # fmt: skip


def gpt2_config(**more):
    return transformers.GPT2Config(
        **STACK, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_inner=INNER, n_positions=12, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, **more,
    )  # fmt: skip


def llama_config(**more):
    return transformers.LlamaConfig(
        **STACK, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=12, **more,
    )  # fmt: skip


def whisper_config():
    return transformers.WhisperConfig(
        **PAIR, num_mel_bins=5, max_source_positions=7, max_target_positions=12, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip


def bart_config(**more):
    return transformers.BartConfig(**PAIR, max_position_embeddings=12, forced_eos_token_id=2, **more)


THEIRS = {
    "bert": lambda: transformers.BertModel(bert_config(), add_pooling_layer=False),
    "bert-with-pooler": lambda: transformers.BertModel(bert_config(hidden_act="relu")),
    "bert-heads": lambda: transformers.BertForPreTraining(bert_config(layer_norm_eps=1e-5)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(gpt2_config()),
    "gpt2-untied": lambda: transformers.GPT2LMHeadModel(gpt2_config(tie_word_embeddings=False)),
    "llama": lambda: transformers.LlamaForCausalLM(llama_config()),
    "llama-grouped": lambda: transformers.LlamaForCausalLM(
        llama_config(
            num_key_value_heads=G,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    ),
    "whisper": lambda: transformers.WhisperForConditionalGeneration(whisper_config()),
    "bart": lambda: transformers.BartForConditionalGeneration(bart_config()),
    "bart-tanh": lambda: transformers.BartForConditionalGeneration(bart_config(activation_function="gelu_new")),
}


def randomised(model):
    """Biases and norms start at 0 and 1, where a mistake would not show. What is not learned is left as it is."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
            parameter.requires_grad = True  # Whisper's waves too: ours are learned
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
    return model.eval()


def their_outputs(model) -> list:
    """The same questions as in small_models.outputs."""
    ids, target = torch.tensor(IDS), torch.tensor(TARGET)
    name = type(model).__name__
    if name.startswith("Whisper"):
        sound = torch.tensor(SOUND, dtype=next(model.parameters()).dtype).transpose(1, 2)
        return [model(input_features=sound, decoder_input_ids=target).logits]
    if name.startswith("Bart"):
        return [model(input_ids=ids, decoder_input_ids=target).logits]
    if name.startswith("Bert"):
        answer = model(input_ids=ids, token_type_ids=(torch.arange(7) // 4).expand(3, 7))
        heads = name == "BertForPreTraining"
        return [answer.prediction_logits, answer.seq_relationship_logits] if heads else [answer.last_hidden_state]
    return [model(input_ids=ids).logits]


def weighted(answers, make) -> object:
    """A single number that depends on every output, each by a factor of its own."""
    rng = np.random.default_rng(5)
    parts = [(answer * make(rng.standard_normal(tuple(answer.shape)).astype(np.float32))).sum() for answer in answers]
    return sum(parts[1:], parts[0])


def their_gradients(model) -> dict[str, np.ndarray]:
    kind = next(model.parameters()).dtype
    model.zero_grad()
    weighted(their_outputs(model), lambda array: torch.tensor(array, dtype=kind)).backward()
    named = model.named_parameters(remove_duplicate=False)
    return {name: parameter.grad.numpy() for name, parameter in named if parameter.grad is not None}


def compare(ours, theirs) -> None:
    mine, other = outputs(ours), their_outputs(theirs)
    for a, b in zip(mine, other, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), **CLOSE)
    weighted(mine, lambda array: array).backward()
    gradients, exact = their_gradients(theirs), their_gradients(copy.deepcopy(theirs).double())
    family = family_of(ours)
    prefix = getattr(family, "PREFIX", "")
    compared = 0
    our_gradients = {name: parameter.grad.numpy() for name, parameter in ours.named_parameters()}
    for name, pieces in family.table(ours.config).items():
        start = 0
        for piece in pieces:
            rows = len(our_gradients[name]) - start if piece.rows is None else piece.rows
            if isinstance(piece, Piece):
                expected = gradients.get(piece.name, gradients.get(piece.name.removeprefix(prefix)))
                if expected is None:
                    assert piece.name == "final_logits_bias"  # a buffer there, which has none
                else:
                    found = our_gradients[name][start : start + rows]
                    truth = exact.get(piece.name, exact.get(piece.name.removeprefix(prefix)))
                    # We may round as PyTorch does: eight times what its own float32 is off by here (sums have other
                    # orders); where it was lucky, eight units of the largest entry, or of the gradients of size 1 that
                    # come down from above and cancel
                    allowed = 8 * np.abs(expected - truth).max() + 8 * EPS * max(np.abs(truth).max(), 1)
                    np.testing.assert_allclose(found, piece.read(truth), rtol=0, atol=allowed, err_msg=name)
                    compared += 1
            start += rows
    assert compared >= 20


def backends_for(name: str) -> list[str]:
    there = kernels.available()
    return [one for one in ("numpy", "numba", *(["emulated"] if name in ("gpt2", "llama-grouped") else []))
            if one in there]  # fmt: skip


@pytest.mark.parametrize("name, on", [(name, on) for name in THEIRS for on in backends_for(name)])
def test_we_load_what_they_saved(tmp_path, name, on):
    torch.manual_seed(0)
    theirs = randomised(THEIRS[name]())
    theirs.save_pretrained(tmp_path)
    with kernels.use(on):
        compare(load(tmp_path).model, theirs)


AUTO = {
    "bert": "BertModel", "bert-heads": "BertForPreTraining", "gpt2": "GPT2LMHeadModel",
    "gpt2-untied": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "llama-grouped": "LlamaForCausalLM",
    "whisper": "WhisperForConditionalGeneration", "bart": "BartForConditionalGeneration",
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_they_load_what_we_saved(tmp_path, name):
    """Every array finds its place: none is left over and none is made up."""
    with kernels.use("numpy"):
        ours = small(name)
        save_pretrained(ours, tmp_path)
        more = {"add_pooling_layer": False} if name == "bert" else {}
        theirs, report = getattr(transformers, AUTO[name]).from_pretrained(
            tmp_path, output_loading_info=True, attn_implementation="eager", **more
        )
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            assert not report[kind], (kind, report[kind])
        for a, b in zip(outputs(ours), their_outputs(theirs.eval()), strict=True):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), **CLOSE)

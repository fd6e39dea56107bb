"""Models of every family out to a folder and back, with small random weights, and folders that are not right."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import MAKERS, outputs, small

import kernels
from minitransformer.errors import UserError, WeightsError
from minitransformer.models import Bert, LanguageModel
from minitransformer.pretrained import load, save_pretrained
from minitransformer.pretrained.families import llama
from minitransformer.pretrained.known import KNOWN
from minitransformer.pretrained.wordpiece import WordPiece


@pytest.fixture(autouse=True)
def on_numpy():
    with kernels.use("numpy"):
        yield


def written(folder, name="llama-grouped"):
    save_pretrained(small(name), folder)
    return folder


def change(folder, **entries):
    """Changes config.json; None removes an entry."""
    path = folder / "config.json"
    said = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}))


def rewrite(folder, change_arrays):
    arrays = load_file(folder / "model.safetensors")
    change_arrays(arrays)
    save_file(arrays, folder / "model.safetensors")


def refused(folder, *words: str, kind=WeightsError) -> str:
    """One line that holds the words."""
    with pytest.raises(kind) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message and all(word in message for word in words), message
    return message


# ------------------------------------------------------------------------------------------------------- out and back


@pytest.mark.parametrize("name", MAKERS)
def test_out_and_back(tmp_path, name):
    model = small(name)
    save_pretrained(model, tmp_path / "new" / "folder")
    again, tokenizer = load(tmp_path / "new" / "folder")
    assert tokenizer is None and type(again) is type(model) and again.training is False
    ours, theirs = model.settings(), again.settings()
    assert {**ours, "seed": None, "n_kv_heads": None} == {**theirs, "seed": None, "n_kv_heads": None}
    for name, array in model.state_dict().items():
        assert array.tobytes() == again.state_dict()[name].tobytes(), name
    for mine, other in zip(outputs(model), outputs(again), strict=True):
        assert mine.numpy().tobytes() == other.numpy().tobytes()
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_arrays_named_without_the_whole_models_prefix(tmp_path, name):
    """As the bare encoders of `transformers` are written."""
    written(tmp_path, name)
    prefix = {"bert": "bert.", "gpt2": "transformer."}[name]
    arrays = {key.removeprefix(prefix): array for key, array in load_file(tmp_path / "model.safetensors").items()}
    save_file(arrays, tmp_path / "model.safetensors")
    for mine, other in zip(outputs(small(name)), outputs(load(tmp_path).model), strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def test_tokenizers_come_along(tmp_path):
    written(tmp_path, "bert")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]) + "\n")
    tokenizer = load(tmp_path).tokenizer
    assert isinstance(tokenizer, WordPiece) and tokenizer.encode("cats") == [2, 5, 6, 3]


def test_an_alphabet_is_a_tokenizer(tmp_path):
    written(tmp_path, "llama")
    (tmp_path / "vocab.json").write_text(json.dumps({"</s>": 0, "1": 1, "+": 2}))
    tokenizer = load(tmp_path).tokenizer
    assert tokenizer.encode("1+1") == [1, 2, 1] and tokenizer.decode([1, 2, 0]) == "1+"
    with pytest.raises(UserError, match="'x' is not in this model's alphabet: [+]1"):
        tokenizer.encode("1x")


# -------------------------------------------------------------------------------------------------- what is not right


def test_a_missing_array_is_named(tmp_path):
    rewrite(written(tmp_path), lambda arrays: arrays.pop("model.layers.1.mlp.up_proj.weight"))
    refused(tmp_path, "has 1 array too few", "model.layers.1.mlp.up_proj.weight")


def test_a_surplus_array_is_named(tmp_path):
    rewrite(written(tmp_path), lambda arrays: arrays.update({"model.layers.0.extra": np.zeros(3, np.float32)}))
    refused(tmp_path, "1 array too many", "model.layers.0.extra")


@pytest.mark.parametrize("whole", [True, False])
def test_a_surplus_array_does_not_hide_which_names_the_file_has(tmp_path, whole):
    """BERT's arrays are written with and without the prefix of the whole model; one array of the other kind is one too
    many, and not all the others too few."""

    def spoil(arrays):
        for name in [] if whole else [*arrays]:
            arrays[name.removeprefix("bert.")] = arrays.pop(name)
        arrays["extra" if whole else "bert.extra"] = np.zeros(3, np.float32)

    rewrite(written(tmp_path, "bert"), spoil)
    refused(tmp_path, "has 1 array too many", "extra")


@pytest.mark.parametrize(
    "family, name, shape",
    [
        ("llama-grouped", "model.layers.0.self_attn.q_proj.weight", (23, 24)),  # heads cannot share it
        ("llama-grouped", "model.layers.0.self_attn.k_proj.weight", (24, 24)),
        ("llama-grouped", "model.layers.0.self_attn.v_proj.weight", (12, 23)),
        ("llama-grouped", "model.norm.weight", (24, 1)),
        ("llama-grouped", "model.embed_tokens.weight", ()),
        ("gpt2", "transformer.h.0.attn.c_attn.weight", (72, 24)),  # not transposed
        ("bart", "model.encoder.embed_positions.weight", (12, 24)),  # without its two rows in front
        ("whisper", "model.encoder.conv1.weight", (24, 15)),
        ("bert", "bert.encoder.layer.0.attention.self.query.bias", (25,)),
    ],
)
def test_a_wrong_shape_is_named(tmp_path, family, name, shape):
    rewrite(written(tmp_path, family), lambda arrays: arrays.update({name: np.zeros(shape, np.float32)}))
    refused(tmp_path, name, "does not fit")


def test_two_wrong_shapes_that_fit_together(tmp_path):
    """Rows of the queries and keys add up to what the joined matrix has, and yet are cut in the wrong place."""
    written(tmp_path, "bert")
    names = [f"bert.encoder.layer.0.attention.self.{one}.weight" for one in ("query", "key")]
    cut = {names[0]: np.zeros((25, 24), np.float32), names[1]: np.zeros((23, 24), np.float32)}
    rewrite(tmp_path, lambda arrays: arrays.update(cut))
    refused(tmp_path, names[0], "(25 x 24)")


def test_whole_numbers_are_no_weights(tmp_path):
    rewrite(written(tmp_path), lambda arrays: arrays.update({"model.norm.weight": np.ones(24, np.int64)}))
    refused(tmp_path, "int64", "expected floats")


@pytest.mark.parametrize("kept", [0, 7, 100, 0.5, 0.999])
def test_a_truncated_file(tmp_path, kept):
    path = written(tmp_path) / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    refused(tmp_path, "model.safetensors")


@pytest.mark.parametrize("kind", ["t5", None, 7, ["bert"]])
def test_an_unknown_architecture(tmp_path, kind):
    change(written(tmp_path), model_type=kind)
    refused(tmp_path, "config.json", "known types are bart, bert, gpt2, llama, whisper")


@pytest.mark.parametrize(
    "family, entries, words",
    [
        ("llama", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("llama", {"attention_bias": True}, "attention_bias True"),
        ("llama", {"rope_parameters": {"rope_type": "yarn"}}, "rope_type 'yarn'"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type 'linear'"),
        ("llama", {"rope_parameters": [1]}, "rope_parameters is list"),
        ("llama", {"head_dim": 8}, "head_dim 8"),
        ("llama", {"hidden_size": "24"}, "hidden_size is '24', expected a whole number"),
        ("llama", {"hidden_size": 24.5}, "hidden_size is 24.5"),
        ("llama", {"hidden_size": True}, "hidden_size is True"),
        ("llama", {"hidden_size": None}, "hidden_size is None"),
        ("llama", {"num_hidden_layers": 10**9}, "between 1 and 1,000"),
        ("llama", {"rms_norm_eps": "small"}, "rms_norm_eps is 'small'"),
        ("bert", {"hidden_act": ["gelu"]}, "hidden_act"),
        ("bert", {"type_vocab_size": 3}, "type_vocab_size 3"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'"),
        ("gpt2", {"activation_function": "mish"}, "activation_function 'mish'"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
        ("whisper", {"activation_function": "relu"}, "activation_function 'relu'"),
        ("whisper", {"decoder_attention_heads": 2}, "decoder_attention_heads 2"),
        ("bart", {"scale_embedding": True}, "scale_embedding True"),
        ("bart", {"normalize_before": True}, "normalize_before True"),
    ],
)
def test_an_unknown_setting(tmp_path, family, entries, words):
    change(written(tmp_path, family), **entries)
    refused(tmp_path, "config.json", words)


def test_sizes_that_contradict_each_other(tmp_path):
    change(written(tmp_path), num_attention_heads=5, head_dim=None)
    refused(tmp_path, "24", "5 heads", kind=UserError)


def test_a_description_of_larger_arrays_takes_no_memory(tmp_path):
    """Sizes are compared before room is made: these would take terabytes."""
    change(written(tmp_path), vocab_size=2**31 - 1, intermediate_size=2**31 - 1)
    refused(tmp_path, "does not fit the sizes")


@pytest.mark.parametrize("content", ["", "{", "[]", "7", "null", "[" * 100_000])
def test_a_description_that_is_none(tmp_path, content):
    (written(tmp_path) / "config.json").write_text(content)
    refused(tmp_path, "config.json", kind=UserError)


def test_sources_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refused("mini-lm", "'mini-lm' is no file or folder", kind=UserError)
    assert all(name in message for name in KNOWN)
    (tmp_path / "empty").mkdir()
    refused("empty", "holds 0 files of weights")
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    refused(tmp_path, "does not say which model it holds", "config.json")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    refused(tmp_path, "config.json", "vocab_size")


@pytest.mark.parametrize("meta", ["", "[]", "{}", '{"d_model": "x"}', "{" * 100_000])
def test_a_file_that_describes_itself_wrongly(tmp_path, meta):
    path = tmp_path / "x.npz"
    np.savez(path, meta_json=np.array(meta), **{"model.shared.weight": np.zeros((5, 4), np.float32)})
    refused(path, "x.npz")


# ---------------------------------------------------------------------------------------------------- the way out


def test_only_models_that_others_know_are_written(tmp_path):
    with pytest.raises(UserError, match="of no family that others know"):
        save_pretrained(LanguageModel(9, d_model=4), tmp_path / "x")
    with pytest.raises(UserError, match="of no family"):
        save_pretrained(Bert(9, d_model=4), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_what_there_is_no_place_for_is_not_dropped(tmp_path):
    model = small("whisper")
    state = model.state_dict()
    state["encoder.layers.0.self_attn.in_proj_bias"][24:48] = 1
    model.load_state_dict(state)
    with pytest.raises(ValueError, match="not zero"):
        save_pretrained(model, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="cannot be written"):
        save_pretrained(small("gpt2"), tmp_path / "file" / "folder")


# --------------------------------------------------------------------------------------------------------------- GGUF


def gguf_file(path, model, **changes):
    """The model as a GGUF file with a byte-pair tokenizer of five tokens."""
    import struct

    import small_files

    config = model.config

    def number(value):
        return (4, struct.pack("<I", value)) if isinstance(value, int) else (6, struct.pack("<f", value))

    values = {
        "llama.embedding_length": config.d_model, "llama.attention.head_count": config.n_heads,
        "llama.attention.head_count_kv": config.n_kv_heads or config.n_heads, "llama.block_count": config.n_layers,
        "llama.feed_forward_length": config.d_ff, "llama.context_length": config.max_len,
        "llama.vocab_size": config.vocab_size, "llama.attention.layer_norm_rms_epsilon": config.norm_eps,
        "llama.rope.freq_base": config.rotary_base,
    } | changes  # fmt: skip
    architecture = values.pop("architecture", "llama")
    entries = [small_files.gguf_entry("general.architecture", 8, small_files.gguf_string(architecture))]
    entries += [small_files.gguf_entry(key, *number(value)) for key, value in values.items()]
    tokens = ["<|end|>", "a", "b", "ab", "c"]
    lists = {"tokens": tokens, "merges": ["a b"]}
    for key, texts in lists.items():
        content = struct.pack("<IQ", 8, len(texts)) + b"".join(map(small_files.gguf_string, texts))
        entries.append(small_files.gguf_entry(f"tokenizer.ggml.{key}", 9, content))
    entries.append(small_files.gguf_entry("tokenizer.ggml.token_type", 9, struct.pack("<IQ5i", 5, 5, 3, 1, 1, 1, 1)))
    entries.append(small_files.gguf_entry("tokenizer.ggml.pre", 8, small_files.gguf_string("smollm")))
    state, arrays, numbers = model.state_dict(), [], b""
    for ours, pieces in llama.table(config, gguf=True).items():
        start = 0
        for piece in pieces:
            end = len(state[ours]) if piece.rows is None else start + piece.rows
            content = np.ascontiguousarray(state[ours][start:end], "<f4")
            arrays.append(small_files.gguf_array(piece.name, content.shape, 0, len(numbers)))
            numbers += content.tobytes()
            numbers += bytes(-len(numbers) % 32)
            start = end
    path.write_bytes(small_files.gguf(entries, arrays, numbers))
    return path


@pytest.mark.parametrize("name", ["llama", "llama-grouped"])
def test_gguf(tmp_path, name):
    model = small(name)
    again, tokenizer = load(gguf_file(tmp_path / "x.gguf", model))
    assert tokenizer.encode("abc") == [3, 4] and again.config.tie_weights == model.config.tie_weights
    np.testing.assert_array_equal(outputs(model)[0].numpy(), outputs(again)[0].numpy())


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"architecture": "gemma"}, "the architecture 'gemma'"),
        ({"llama.rope.dimension_count": 4}, "llama.rope.dimension_count 4"),
        ({"llama.feed_forward_length": 21}, "blk.0.ffn_up.weight (20 x 24) does not fit"),
        ({"llama.block_count": 3}, "too few"),
        ({"llama.block_count": 1}, "too many"),
        ({"llama.embedding_length": 0.5}, "llama.embedding_length is 0.5"),
    ],
)
def test_gguf_that_is_not_right(tmp_path, changes, words):
    refused(gguf_file(tmp_path / "x.gguf", small("llama-grouped"), **changes), words)


# ---------------------------------------------------------------------------------------------------- OpenAI's Whisper


def openai_file(path, model):
    """The arrays as OpenAI names them."""
    from minitransformer.pretrained.families import whisper
    from minitransformer.pretrained.renaming import give

    save_file(give(model, whisper.table(model.config, openai=True)), path)
    return path


def test_openais_names(tmp_path, monkeypatch):
    from minitransformer.pretrained.families import whisper

    monkeypatch.setattr(whisper, "HEAD_WIDTH", 6)
    model = small("whisper")
    again, tokenizer = load(openai_file(tmp_path / "x.safetensors", model))
    assert tokenizer is None
    np.testing.assert_array_equal(outputs(model)[0].numpy(), outputs(again)[0].numpy())


def test_openais_file_without_its_decoder(tmp_path):
    path = openai_file(tmp_path / "x.safetensors", small("whisper"))
    arrays = {name: array for name, array in load_file(path).items() if not name.startswith("decoder.")}
    save_file(arrays, path)
    refused(path, "decoder.token_embedding.weight", "is missing")

"""The models that others trained, on our kernels: what they are known to say, and the numbers of other programs."""

import json

import numpy as np
import pytest

import kernels
from autograd import no_grad
from minitransformer.decoding import generate
from minitransformer.pretrained import load, save_pretrained, speech

pytestmark = [pytest.mark.models, pytest.mark.oracle]
FAST = ["numpy", "numba"]
SMALL = [*FAST, *(["emulated"] if "emulated" in kernels.available() else [])]


@pytest.fixture
def on(request):
    with kernels.use(request.param), no_grad():
        yield request.param


def apart(ours, theirs) -> float:
    """The largest difference."""
    theirs = theirs.detach().numpy() if hasattr(theirs, "detach") else theirs
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max())


# --------------------------------------------------------------------------------------------------------------- MiniLM

CAT = [101, 1996, 4937, 2938, 2006, 1996, 13523, 1012, 102]
TEXTS = [
    "The cat sat on the mat.",
    "A kitten lay on the rug.",
    "Interest rates went up again last week, and banks fell.",
]


@pytest.mark.parametrize("on", FAST, indirect=True)
def test_minilm_on_onnx_runtime(model_folder, on):
    """Hidden states of order 1 after six layers: the largest difference of two ways to add in float32 was 2e-6."""
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="an oracle that make test-models installs")
    from minitransformer.app.bench import onnx_peer

    model, tokenizer = load(model_folder("minilm"))
    run = onnx_peer.session(model, threads=1)
    for text in TEXTS:
        ids = np.array([tokenizer.encode(text)])
        segments = np.zeros_like(ids)
        assert apart(model.hidden(ids, segments).numpy(), run(ids, segments)) < 5e-6


@pytest.mark.parametrize("on", FAST, indirect=True)
def test_minilm(model_folder, on):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = model_folder("minilm")
    model, tokenizer = load(folder)
    assert tokenizer.encode(TEXTS[0]) == CAT
    anchor = [0.13023719, -0.01577282, -0.03671669, 0.05798641, -0.05979175]
    np.testing.assert_allclose(model.sentences([CAT]).numpy()[0, :5], anchor, rtol=0, atol=5e-7)
    rows = tokenizer.encode_batch(TEXTS)
    lengths = np.array([len(row) for row in rows])
    ids = np.array([row + [0] * (lengths.max() - len(row)) for row in rows])
    real = np.arange(lengths.max()) < lengths[:, None]
    theirs = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real)).last_hidden_state.numpy()
    ours = model.hidden(ids, np.zeros_like(ids), lengths).numpy()
    assert apart(ours[real], expected[real]) < 5e-6
    alike = model.sentences(ids, lengths).numpy()
    alike = alike @ alike.T
    assert alike[0, 1] > 0.5 > 0.1 > alike[0, 2]


# -------------------------------------------------------------------------------------------------------------- Whisper


@pytest.mark.parametrize("on", FAST, indirect=True)
def test_whisper(model_folder, on):
    model, pieces = load(model_folder("whisper") / "tiny.en.pt")
    filters = speech.mel_filters(model_folder("whisper") / "mel_filters.npz", 80)
    samples = np.fromfile(model_folder("speech") / "goforward.raw", "<i2").astype(np.float32) / 32768
    picture = speech.spectrogram(next(speech.windows(samples))[1], filters)[None]
    marks = [i for i in pieces.special.values() if i != 50256]
    (said,) = generate(model, picture, sos=[50257, 50362], eos=50256, suppress=marks)
    assert said == [1514, 2651, 838, 10700, 13]
    assert list(speech.transcribe(model, pieces, samples, filters)) == [(0, "Go forward 10 meters.")]


@pytest.mark.parametrize("on", FAST, indirect=True)
def test_whispers_logits(model_folder, tmp_path, on):
    """Through our export: transformers reads what we wrote of OpenAI's file."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, _ = load(model_folder("whisper") / "tiny.en.pt")
    save_pretrained(model, tmp_path)
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path).eval()
    samples = np.fromfile(model_folder("speech") / "goforward.raw", "<i2").astype(np.float32) / 32768
    filters = speech.mel_filters(model_folder("whisper") / "mel_filters.npz", 80)
    picture = speech.spectrogram(next(speech.windows(samples))[1], filters)[None]
    words = np.array([[50257, 50362, 1514, 2651, 838, 10700, 13]])
    with torch.no_grad(), no_grad():
        expected = theirs(torch.tensor(picture).transpose(1, 2), decoder_input_ids=torch.tensor(words)).logits
        # logits of some 30 from sums of 384 terms over 1,500 places in float32: 4e-5 was seen
        assert apart(model(picture, words).numpy(), expected) < 5e-4


# -------------------------------------------------------------------------------------------------------------- SmolLM2


def smollm2_in_numpy(path, ids) -> np.ndarray:
    """Logits (T, V), from the weights as llama.cpp's own package dequantises them."""
    import gguf

    reader = gguf.GGUFReader(path)
    weights = {one.name: gguf.quants.dequantize(one.data, one.tensor_type) for one in reader.tensors}
    said = {name: field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}
    heads, groups = said["llama.attention.head_count"], said["llama.attention.head_count_kv"]
    eps, base = said["llama.attention.layer_norm_rms_epsilon"], said["llama.rope.freq_base"]
    x = weights["token_embd.weight"][ids].astype(np.float64)
    T, C = x.shape
    D = C // heads
    angles = np.arange(T)[:, None] * base ** (-np.arange(0, D, 2) / D)
    turn = np.exp(1j * angles)[:, None]  # neighbours as the two parts of a complex number

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weights[name]

    def rotated(x):
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)

    for i in range(said["llama.block_count"]):
        w = {name.removeprefix(f"blk.{i}.").removesuffix(".weight"): array.T for name, array in weights.items()
             if name.startswith(f"blk.{i}.")}  # fmt: skip
        y = norm(x, f"blk.{i}.attn_norm.weight")
        q = rotated((y @ w["attn_q"]).reshape(T, heads, D))
        k, v = ((y @ w[name]).reshape(T, groups, D) for name in ("attn_k", "attn_v"))
        k, v = (np.repeat(one, heads // groups, axis=1) for one in (rotated(k), v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(D) + np.triu(np.full((T, T), -np.inf), 1)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        chances /= chances.sum(-1, keepdims=True)
        x = x + np.einsum("hts,shd->thd", chances, v).reshape(T, C) @ w["attn_output"]
        y = norm(x, f"blk.{i}.ffn_norm.weight")
        gate = y @ w["ffn_gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["ffn_up"])) @ w["ffn_down"]
    return norm(x, "output_norm.weight") @ weights["token_embd.weight"].T


def test_smollm2(model_folder):
    path = model_folder("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
    model, tokenizer = load(path)
    ids = tokenizer.encode("The capital of France is")
    assert ids == [504, 3575, 282, 4649, 314]
    expected = smollm2_in_numpy(path, ids)
    for on in FAST:
        with kernels.use(on), no_grad():
            # float32 against float64: 30 layers, logits of some 20; 1e-4 was seen
            assert apart(model.to(on)(np.array([ids])).numpy()[0], expected) < 1e-3
    with kernels.use("numba"):
        (words,) = generate(model.to("numba"), [ids], max_new_tokens=2)
    assert tokenizer.decode(words) == " Paris."


# ----------------------------------------------------------------------------------------- BART, MGM, mathformer, rxnfp


@pytest.mark.parametrize("on", SMALL, indirect=True)
def test_bart(model_folder, on):
    model, tokenizer = load(model_folder("bart-g2p"))
    ids = tokenizer.encode("Wikipedia")
    (sounds,) = generate(model, [ids], sos=1, eos=2)
    assert tokenizer.decode(sounds) == "wɪkəpˈidiə"


@pytest.mark.parametrize("on", SMALL, indirect=True)
def test_barts_logits(model_folder, on):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    path = model_folder("bart-g2p") / "oov_bart_en_us.npz"
    model, tokenizer = load(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.tensor(file[name]) for name in file.files if name != "meta_json"}
        said = json.loads(str(file["meta_json"]))
    side = {"layers": 1, "attention_heads": said["num_heads"], "ffn_dim": said["ffn_dim"]}
    theirs = transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=len(arrays["model.shared.weight"]), d_model=said["d_model"], pad_token_id=0, bos_token_id=1,
            eos_token_id=2, max_position_embeddings=said["max_position_embeddings"],
            **{f"{one}_{name}": value for one in ("encoder", "decoder") for name, value in side.items()},
        )
    ).eval()  # fmt: skip
    missing, unexpected = theirs.load_state_dict(arrays, strict=False)
    assert not unexpected and set(missing) <= {
        "lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    }  # fmt: skip
    ids, target = np.array([tokenizer.encode("Wikipedia")]), np.array([[1, 9, 8, 7, 20, 4]])
    with torch.no_grad(), no_grad():
        expected = theirs(input_ids=torch.tensor(ids), decoder_input_ids=torch.tensor(target)).logits
        assert apart(model(ids, target).numpy(), expected) < 5e-5  # logits of some 20 in float32: 1.2e-5 was seen


@pytest.mark.parametrize("on", FAST, indirect=True)
@pytest.mark.parametrize("name", ["mgm", "rxnfp"])
def test_logits(model_folder, name, on):
    """A GPT-2, and a BERT with both heads, as transformers computes them of the same file."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = model_folder(name)
    model, _ = load(folder)
    kind, config = {
        "mgm": (transformers.GPT2LMHeadModel, transformers.GPT2Config),
        "rxnfp": (transformers.BertForPreTraining, transformers.BertConfig),
    }[name]
    theirs = kind(config.from_pretrained(folder)).eval()
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    _, unexpected = theirs.load_state_dict(state, strict=False)
    assert all("bias" in one or "position_ids" in one for one in unexpected)  # masks and numbers of places
    ids = np.random.default_rng(0).integers(20, 500, (2, 33))
    segments = np.arange(33) // 20 + np.zeros_like(ids)
    with torch.no_grad():
        if name == "mgm":
            pairs = [(model(ids), theirs(input_ids=torch.tensor(ids)).logits)]
        else:
            answer = theirs(input_ids=torch.tensor(ids), token_type_ids=torch.tensor(segments))
            answers = answer.prediction_logits, answer.seq_relationship_logits
            pairs = list(zip(model(ids, segments), answers, strict=True))
    for ours, expected in pairs:
        # 8 and 12 layers in float32: each rounding is 6e-8 of numbers up to 30; 1.5e-5 was seen
        assert apart(ours.numpy(), expected) < 2e-4


SIGNS = {"addformer": "+", "subformer": "-", "mulformer": "*", "divformer": "/"}


@pytest.mark.parametrize("on", SMALL, indirect=True)
@pytest.mark.parametrize("name", SIGNS)
def test_mathformer_calculates(model_folder, name, on):
    """All tasks of two digits; it knows no numbers below 0, and a division says Q3R1."""
    model, tokenizer = load(model_folder("mathformer") / name)
    pairs = [(a, b) for a in range(10) for b in range(name == "divformer", a + 1 if name == "subformer" else 10)]
    pairs = pairs[:: 33 if on == "emulated" else 1]
    tasks = [f"{a}{SIGNS[name]}{b}=" for a, b in pairs]
    end = tokenizer.special["</s>"]
    written = generate(model, tokenizer.encode_batch(tasks), max_new_tokens=8, eos=end)
    right = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
             "/": lambda a, b: f"Q{a // b}R{a % b}"}[SIGNS[name]]  # fmt: skip
    assert [tokenizer.decode(ids) for ids in written] == [str(right(a, b)) for a, b in pairs]

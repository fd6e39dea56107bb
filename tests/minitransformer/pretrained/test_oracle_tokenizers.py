"""Our tokenizers against the package `tokenizers`: the same ids, the same text back, the same merges when trained.

The package's tables of Unicode are of other years than Python's: newer ones for the expressions, those of 2015 for
BERT's rules. Which characters it takes for something else is found out first, one by one; they must be characters that
came or changed meanwhile, and the texts do without them."""

import json
import random
import shutil
import struct
import unicodedata

import pytest

from minitransformer.pretrained.byte_pair import PATTERNS, BytePair, to_characters
from minitransformer.pretrained.byte_pair_training import train
from minitransformer.pretrained.tokenizer_folder import read_folder
from minitransformer.pretrained.tokenizer_lists import from_gguf, read_ranks
from minitransformer.pretrained.tokenizer_writing import files_of
from minitransformer.pretrained.wordpiece import SPECIAL, WordPiece

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is the oracle here: make test-oracles installs it")
pytestmark = pytest.mark.oracle
EVERY_CHARACTER = [*range(0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE0200), *range(0x34000, 0x110000, 997)]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


def splitter(pattern: str):
    """The package's own way to cut words."""
    pre = tokenizers.pre_tokenizers
    if pattern == "gpt2":
        return pre.ByteLevel(add_prefix_space=False)
    if pattern == "smollm":
        return pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    split = pre.Split(tokenizers.Regex(PATTERNS[pattern]), "isolated")
    return pre.Sequence([split, pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_pair_peer(ours: BytePair, merges: list[tuple[str, str]] | None = None):
    names = {i: to_characters(token) for token, i in ours.tokens.items()}
    if merges is None:
        merges = [(names[a], names[b]) for a, b in sorted(ours.pairs, key=lambda pair: ours.pairs[pair][0])]
    vocabulary = {name: i for i, name in names.items()} | ours.special
    peer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges, ignore_merges=ours.whole_words))
    peer.pre_tokenizer, peer.decoder = splitter(ours.pattern), tokenizers.decoders.ByteLevel()
    peer.add_special_tokens(list(ours.special))
    return peer


def seen_differently(ours, peer, around) -> frozenset[int]:
    """Characters that get other ids, put into a text where their kind decides."""
    found = set()
    for i in range(0, len(EVERY_CHARACTER), 10_000):
        codes = EVERY_CHARACTER[i : i + 10_000]
        texts = [around.replace("*", chr(code)) for code in codes]
        pairs = zip(codes, texts, peer.encode_batch_fast(texts), strict=True)
        found |= {code for code, text, theirs in pairs if ours.encode(text) != theirs.ids}
    return frozenset(found)


@pytest.fixture(scope="module")
def unknown_to_python(small) -> frozenset[int]:
    """Letters and numbers that are in no table of this Python."""
    ours = BytePair(small.tokens, small.pairs, small.special, pattern="smollm")
    found = seen_differently(ours, byte_pair_peer(ours), "*'s*1")
    assert {unicodedata.category(chr(code)) for code in found} <= {"Cn"}
    return found


@pytest.fixture(scope="module")
def since_2015() -> frozenset[int]:
    """BERT: format characters, accents and punctuation of the years after Unicode 8."""
    found = seen_differently(*wordpieces(), "a* b*a")
    kinds = {unicodedata.category(chr(code)) for code in found}
    assert kinds <= {"Cn", "Cf", "Mn", "Mc", "Po", "Ps", "Pe", "Pd", "So"} and len(found) < 700
    assert all(code > 0x300 for code in found)
    return found


def wordpieces(lower=True, strip=None, chinese=True):
    """Ours and theirs. Every letter below U+2000 is a piece, so that no rule hides behind [UNK]."""
    letters = [chr(c) for c in range(0x21, 0x2000) if chr(c).isalnum() or unicodedata.category(chr(c))[0] in "PSM"]
    pieces = dict.fromkeys([*SPECIAL, *letters, *(f"##{c}" for c in letters), "the", "中", "##文", "豈", "##x"])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    peer = tokenizers.implementations.BertWordPieceTokenizer(
        vocabulary, lowercase=lower, strip_accents=strip, handle_chinese_chars=chinese
    )
    return WordPiece(vocabulary, lower=lower, strip_accents=strip, chinese=chinese), peer._tokenizer


def compare(ours, peer, texts, capsys) -> None:
    """Ids of every text, and the text of these ids; special tokens understood and not."""
    texts, wrong = list(texts), []
    for parse_special in (True, False):
        peer.encode_special_tokens = not parse_special
        for i in range(0, len(texts), 1000):
            for text, theirs in zip(texts[i : i + 1000], peer.encode_batch_fast(texts[i : i + 1000]), strict=False):
                ids = ours.encode(text, parse_special=parse_special)
                same = ids == theirs.ids and ours.decode(ids) == peer.decode(ids)
                if not same or ours.decode(ids, keep_special=True) != peer.decode(ids, skip_special_tokens=False):
                    wrong.append((text, ids, theirs.ids))
    with capsys.disabled():
        print(f"\n{len(texts):,} texts, twice each: {len(wrong)} differences")
    assert not wrong, wrong[0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_byte_pairs(small, hard_texts, unknown_to_python, pattern, capsys):
    ours = BytePair(small.tokens, small.pairs, small.special, pattern=pattern, whole_words=pattern == "llama3")
    peer = byte_pair_peer(ours)
    compare(ours, peer, hard_texts(5000, ours.special, unknown_to_python), capsys)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_training(pattern, hard_texts, real_texts):
    unassigned = frozenset(code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn")
    texts = hard_texts(500, avoid=unassigned) + real_texts[::40]
    ours = train(texts, 2000, pattern=pattern, special=["<s>"])
    peer = byte_pair_peer(BytePair(ours.tokens, {}, pattern=pattern))
    peer.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=2000, special_tokens=["<s>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    ))  # fmt: skip
    assert {to_characters(token): i for token, i in ours.tokens.items()} | ours.special == peer.get_vocab()
    merges = [tuple(merge) for merge in json.loads(peer.to_str())["model"]["merges"]]
    names = {i: to_characters(token) for token, i in ours.tokens.items()}
    assert [(names[a], names[b]) for a, b in ours.pairs] == merges


@pytest.mark.parametrize(
    "options", [(True, None, True), (False, None, True), (True, False, False), (False, True, False)]
)
def test_wordpiece(hard_texts, since_2015, options, capsys):
    ours, peer = wordpieces(*options)
    compare(ours, peer, hard_texts(2000, SPECIAL, since_2015), capsys)


def read_by_others(ours, folder):
    """What `tokenizers` and `transformers` make of the files that we write."""
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle here: make test-oracles")
    for name, content in files_of(ours).items():
        (folder / name).write_bytes(content)
    peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return peer, transformers.AutoTokenizer.from_pretrained(str(folder))


@pytest.mark.parametrize("options", [(True, None, True), (False, True, False)])
def test_others_read_the_word_pieces_we_write(hard_texts, since_2015, options, tmp_path, capsys):
    ours, _ = wordpieces(*options)
    peer, automatic = read_by_others(ours, tmp_path)
    texts = hard_texts(2000, SPECIAL, since_2015)
    compare(ours, peer, texts, capsys)
    assert [automatic(text)["input_ids"] for text in texts[:300]] == [ours.encode(text) for text in texts[:300]]
    assert automatic.mask_token_id == ours.special["[MASK]"] and automatic.pad_token_id == ours.special["[PAD]"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("before", [[], [0]], ids=["alone", "after a mark"])
def test_others_read_the_byte_pairs_we_write(small, hard_texts, unknown_to_python, pattern, before, tmp_path, capsys):
    ours = BytePair(
        small.tokens, small.pairs, small.special, pattern=pattern, whole_words=pattern == "llama3", before=before
    )
    peer, automatic = read_by_others(ours, tmp_path)
    texts = hard_texts(2000, ours.special, unknown_to_python)
    compare(ours, peer, texts, capsys)
    assert [automatic(text)["input_ids"] for text in texts[:300]] == [ours.encode(text) for text in texts[:300]]
    assert automatic.eos_token == "<|endoftext|>"


def test_pairs_of_texts(hard_texts):
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", "##e", "##s"])}
    ours, peer = WordPiece(vocabulary), tokenizers.implementations.BertWordPieceTokenizer(vocabulary)
    rng, texts = random.Random(0), hard_texts(600, SPECIAL, frozenset(range(0x300, 0x110000)))
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        max_len = rng.randint(3, 40)
        peer.enable_truncation(max_len)
        theirs = peer.encode(first, second)
        assert ours.encode_pair(first, second, max_len) == (theirs.ids, theirs.type_ids)
        assert ours.encode(first, max_len=max_len) == peer.encode(first).ids


def gguf_metadata(path) -> dict:
    """Names and values at the head of a GGUF file."""
    kinds = "BbHhIif?sLQqd"  # 8 is a string, 9 a list
    with path.open("rb") as file:

        def read(kind):
            if kind == 8:
                return file.read(read(10)).decode("utf-8")
            if kind == 9:
                inner, count = read(4), read(10)
                return [read(inner) for _ in range(count)]
            code = "<" + kinds[kind]
            return struct.unpack(code, file.read(struct.calcsize(code)))[0]

        assert file.read(4) == b"GGUF"
        read(4), read(10)  # version, number of tensors
        return {read(8): read(read(4)) for _ in range(read(10))}


@pytest.mark.models
def test_minilm(model_folder, hard_texts, since_2015, real_texts, capsys, tmp_path):
    folder = model_folder("minilm")
    for name in ("tokenizer_config.json", "vocab.txt"):
        shutil.copy(folder / name, tmp_path)
    from_text = read_folder(tmp_path)
    ours, peer = read_folder(folder), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    peer.no_padding(), peer.no_truncation()
    assert ours.encode("The cat sat on the mat.") == [101, 1996, 4937, 2938, 2006, 1996, 13523, 1012, 102]
    assert (from_text.vocabulary, from_text.special) == (ours.vocabulary, ours.special)
    texts = hard_texts(20_000, SPECIAL, since_2015) + real_texts
    compare(ours, peer, texts, capsys)
    compare(ours, read_by_others(ours, tmp_path)[0], texts, capsys)
    assert all(ours.decode([1996, i]) == peer.decode([1996, i]) for i in range(ours.vocab_size))


@pytest.mark.models
def test_smollm2(model_folder, hard_texts, unknown_to_python, real_texts, capsys):
    path = model_folder("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
    about = gguf_metadata(path)
    ours = from_gguf(*(about[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges", "token_type", "pre")))
    peer = byte_pair_peer(ours, [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]])
    assert ours.encode("The capital of France is") == [504, 3575, 282, 4649, 314] and ours.vocab_size == 49152
    compare(ours, peer, hard_texts(20_000, ours.special, unknown_to_python) + real_texts, capsys)
    rng = random.Random(0)
    for _ in range(2000):
        ids = rng.choices(range(ours.vocab_size), k=8)  # bytes that form no text
        assert ours.decode(ids) == peer.decode(ids)


@pytest.mark.models
def test_whisper(model_folder, hard_texts, unknown_to_python, real_texts, capsys, tmp_path):
    path = model_folder("whisper") / "gpt2.tiktoken"
    ours = read_ranks(path, ["<|endoftext|>", "<|startoftranscript|>"])
    assert ours.encode("Go forward 10 meters.") == [5247, 2651, 838, 10700, 13]
    assert ours.decode([1514, 2651, 838, 10700, 13]) == " Go forward 10 meters."
    assert ours.special["<|endoftext|>"] == 50256
    # GPT-2's merges: the last two parts of which a token is made by the merges before it
    merges = []
    for token, rank in ours.tokens.items():
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            ranks = [ours.tokens.get(a + b, rank) for a, b in zip(parts, parts[1:], strict=False)]
            i = ranks.index(min(ranks))
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((to_characters(parts[0]), to_characters(parts[1])))
    assert len(merges) == 50_000
    peer = byte_pair_peer(ours, merges)
    texts = hard_texts(20_000, ours.special, unknown_to_python) + real_texts
    compare(ours, peer, texts, capsys)
    compare(ours, read_by_others(ours, tmp_path)[0], texts, capsys)

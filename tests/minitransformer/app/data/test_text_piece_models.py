"""Damaged sentencepiece models: each loads or raises DataError. A crash of the C++ library would end this
process, so the library is tried in a process of its own."""

import io
import random
import subprocess
import sys
from pathlib import Path

import pytest

from minitransformer.app.data import DataError, PieceTokenizer

ROOT = Path(__file__).resolve().parents[4]


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Half of the time flips alone: they keep the lengths right, and so get further into the loader. Else one
    to three places are cut off, deleted, doubled or filled with random bytes."""
    result = bytearray(data)
    if generator.random() < 0.5:
        for _ in range(generator.choice([1, 1, 2, 30])):
            result[generator.randrange(len(result))] ^= 1 << generator.randrange(8)
        return bytes(result)
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(result) + 1)
        end = at + generator.randint(1, 12)
        change = generator.randrange(5)
        if change == 0:
            del result[at:]
        elif change == 1:
            del result[at:end]
        elif change == 2:
            result[at:at] = result[at:end]
        else:
            result[at:end] = generator.randbytes(generator.randint(1, 8))
    return bytes(result)


def small_model(model_type: str = "unigram", normalization: str = "identity") -> bytes:
    """Without the table of normalisation a model is 500 bytes, so that damage hits what matters."""
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"le chat mange {i} souris" for i in range(40)]),
        model_writer=written,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        model_type=model_type,
        normalization_rule_name=normalization,
    )
    return written.getvalue()


def damaged_models(model_type: str, normalization: str, count: int) -> None:
    """Runs in a process of its own: prints how many of the damaged models load."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
    valid = small_model(model_type, normalization)
    assert PieceTokenizer(valid).vocab_size > 20
    generator = random.Random(model_type)
    text = "le chat mange 3 ﬁ ½ œufs 漢 e\u0301 " + "".join(chr(generator.randrange(32, 0xD7FF)) for _ in range(300))
    loaded = 0
    for _ in range(count):
        try:
            tokenizer = PieceTokenizer(mutate(valid, generator), path="m.model")
        except DataError as error:
            assert "\n" not in str(error) and str(error).startswith("m.model:0: found ")
            continue
        loaded += 1
        tokenizer.decode(tokenizer.encode(text))
        tokenizer.decode(range(tokenizer.vocab_size))
    print(loaded)


@pytest.mark.parametrize(
    ("model_type", "normalization", "count"),
    [("unigram", "identity", 2000), ("bpe", "identity", 2000), ("unigram", "nmt_nfkc", 600)],
)
def test_damaged_sentencepiece_models(model_type, normalization, count):
    done = subprocess.run(
        [sys.executable, __file__, model_type, normalization, str(count)],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == "", "the library printed"
    assert 0 < int(done.stdout) < count


def field(number: int, wire: int, value: bytes) -> bytes:
    return bytes([number << 3 | wire]) + value


def piece(text: bytes, score: bytes = b"\0\0\0\0", kind: int = 1) -> bytes:
    body = field(1, 2, bytes([len(text)]) + text) + field(2, 5, score) + field(3, 0, bytes([kind]))
    return field(1, 2, bytes([len(body)]) + body)


UNKNOWN_PIECE = piece(b"<unk>", kind=2)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"not a model at all", "model|cut off"),
        (UNKNOWN_PIECE + piece(b"a")[:-1], "cut off"),
        (field(1, 2, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "cut off"),
        (field(1, 0, b"\xff" * 11), "does not end"),
        (field(1, 0, b"\xff" * 10 + b"\1"), "does not end"),
        (UNKNOWN_PIECE + piece(b"\xe9"), "not UTF-8"),
        (UNKNOWN_PIECE + piece(b""), "empty piece"),
        (UNKNOWN_PIECE + piece(b"a\0"), "NUL"),
        (UNKNOWN_PIECE + piece(b"a") + piece(b"a"), "twice"),
        (UNKNOWN_PIECE + piece(b"a", b"\0\0\xc0\x7f"), "a score that is no number"),
        (UNKNOWN_PIECE + piece(b"a", b"\0\0\x80\xff"), "a score that is no number"),
        (UNKNOWN_PIECE + piece(b"a", kind=9), "no known type"),
        (UNKNOWN_PIECE + piece(b"a", kind=6), "no known type"),
        (piece(b"a"), "unknown characters"),
        (UNKNOWN_PIECE + piece(b"b", kind=2) + piece(b"a"), "unknown characters"),
        (UNKNOWN_PIECE, "no piece of text"),
        (field(1, 0, b"\1"), "no message"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_model_is_said(data, what, tmp_path):
    path = tmp_path / "m.model"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        PieceTokenizer.from_file(path)
    assert any(part in str(caught.value) for part in what.split("|")), str(caught.value)
    assert caught.value.path == str(path)


def test_empty_missing_and_foreign_model_files(tmp_path):
    for name, data in (("empty", b""), ("text", b"hello\n" * 10), ("pickle", b"\x80\x04K\x01.")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError):
            PieceTokenizer.from_file(tmp_path / name)
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError):
            PieceTokenizer.from_file(path)


if __name__ == "__main__":
    damaged_models(sys.argv[1], sys.argv[2], int(sys.argv[3]))

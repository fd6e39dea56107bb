"""Damaged files: thousands of them for each loader. Each either loads or raises DataError: nothing else, no
hang, no flood of memory. (Damaged sentencepiece models: test_text_piece_models.py.)"""

import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer.app.data import (
    DataError,
    LabTokenizer,
    WordTokenizer,
    load_tokenizer,
    read_documents,
    read_labelled,
    read_pairs,
    read_sections,
)

MUTANTS = 2000
SECONDS = 20.0  # a loader takes some 0.1 ms for files this small: this is a bound against hanging, not a target

VALID = {
    "dict": "▁le 90\n▁chat 12\ns 7\né 3\n? 1\n",
    "lines": "un livre\n\nété — “bon”\r\nfin\n",
    "spm": "▁un ▁livre s\n▁é té ?\n▁fin\n",
    "label": "1\n0\n1\n",
    "tsv": "text\tlabel\nbon livre\t1\nété\t0\n",
    "csv": 'text,label\n"bon, ""livre""",1\nété,0\n',
    "jsonl": '{"text": "bon \\u00e9 \\ud83d\\ude00", "label": 1}\n{"text": "x", "label": "0"}\n',
    "pairs": "Hi.\tSalut.\tCC-BY\nSummer\tÉté\n",
}


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Flip, truncate, delete, duplicate, insert: up to four times, at random places."""
    result = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(result) + 1)
        end = at + generator.randint(1, 12)
        kind = generator.randrange(7)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << generator.randrange(8)
        elif kind == 1 and at < len(result):
            result[at] = generator.randrange(256)
        elif kind == 2 and generator.random() < 0.3:
            del result[at:]
        elif kind == 3:
            del result[at:end]
        elif kind == 4:
            result[at:at] = result[at:end] * generator.choice([1, 1, 1, 50])
        elif kind == 5:
            result[at:at] = generator.randbytes(generator.randint(1, 8))
        else:
            hard = (
                b"\n",
                b"\t",
                b",",
                b'"',
                b"\0",
                b"\r",
                b"\xff\xfe",
                b"\xed\xa0\x80",
                b"\xe2\x80\xa8",
                b"{",
                b"[" * 60,
                b"1e999",
            )
            result[at:at] = generator.choice(hard)
    return bytes(result)


def load_spm(path):
    labels = path.with_suffix(".label")
    labels.write_text(VALID["label"])
    return read_labelled(path)


def load_label(path):
    texts = path.with_suffix(".spm")
    texts.write_text(VALID["spm"], encoding="utf-8")
    return read_labelled(texts, label_path=path)


LOADERS = {
    "dict": LabTokenizer.from_files,
    "lines": lambda path: (read_documents(path, "lines"), read_sections(path)),
    "spm": load_spm,
    "label": load_label,
    "tsv": read_labelled,
    "csv": read_labelled,
    "jsonl": read_labelled,
    "pairs": read_pairs,
}


def loads_or_explains(load, path, data):
    """True if it loads. Whatever it raises must be a DataError of one line with the file's name in it."""
    path.write_bytes(data)
    try:
        load(path)
        return True
    except DataError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 1000 and ": found " in message, message
        assert str(path.parent) in message
        return False


@pytest.mark.parametrize("kind", VALID)
def test_damaged_files(kind, tmp_path):
    valid = VALID[kind].encode("utf-8")
    path = tmp_path / f"a.{kind}"
    assert loads_or_explains(LOADERS[kind], path, valid)
    generator = random.Random(kind)
    started = time.process_time()
    loaded = sum(loads_or_explains(LOADERS[kind], path, mutate(valid, generator)) for _ in range(MUTANTS))
    # If all failed, or none, the damage would not reach the code that is to be tried.
    assert 0 < loaded < MUTANTS
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("kind", VALID)
@settings(max_examples=100, deadline=None)
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_arbitrary_bytes(kind, tmp_path_factory, data):
    loads_or_explains(LOADERS[kind], tmp_path_factory.getbasetemp() / f"any.{kind}", data)


def test_damaged_words_json(tmp_path):
    WordTokenizer.train(["le chat été", "le chien"], extra_specials=("[MASK]",)).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    valid = path.read_bytes()
    generator = random.Random(1)

    def load(path):
        tokenizer = load_tokenizer(path.parent)
        tokenizer.decode(tokenizer.encode("le chat inconnu"))
        tokenizer.save(tmp_path / "again")

    loaded = sum(loads_or_explains(load, path, mutate(valid, generator)) for _ in range(MUTANTS))
    assert 0 < loaded < MUTANTS


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["words", "sentencepiece", "lab"]),
    st.dictionaries(
        st.sampled_from(["format", "kind", "name", "extra_specials", "lower", "split", "words", "model", "sha256"]),
        JSON,
        max_size=3,
    ),
)
def test_descriptions_with_entries_of_any_type(tmp_path_factory, kind, change):
    folder = tmp_path_factory.getbasetemp() / "description"
    folder.mkdir(exist_ok=True)
    (folder / "dict.txt").write_text("a 1\n")
    good = {
        "format": "minitransformer tokenizer 1",
        "kind": kind,
        "name": "n",
        "extra_specials": [],
        "lower": True,
    }
    good |= {
        "split": "words",
        "words": ["a"],
        "model": None if kind == "lab" else "sentencepiece.model",
        "sha256": "",
    }
    data = json.dumps(good | change).encode("utf-8")
    loads_or_explains(lambda path: load_tokenizer(path.parent), folder / "tokenizer.json", data)

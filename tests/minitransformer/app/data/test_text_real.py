"""The real files, where they are present: known counts, known ids, measured padding and unknown pieces."""

from pathlib import Path

import numpy as np
import pytest

from minitransformer.app.data import (
    BERT_SPECIALS,
    BertBatches,
    ClassifierBatches,
    LabTokenizer,
    LanguageModelBatches,
    PieceTokenizer,
    TranslationBatches,
    WordTokenizer,
    load_tokenizer,
    padding_fraction,
    read_documents,
    read_labelled,
    read_pairs,
    read_sections,
    split_sentences,
)

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"
REVIEWS, PAIRS, NOVELS = DATA / "cls-books-fr", DATA / "tatoeba-eng-fra", DATA / "french-novels"


def needs(folder):
    reason = f"the folder {folder.name} of real data is not beside the project (../shared/data)"
    return pytest.mark.skipif(not folder.is_dir(), reason=reason)


@pytest.fixture(scope="module")
def tokenizer():
    return LabTokenizer.from_files(REVIEWS / "dict.txt", REVIEWS / "sentencepiece.french.model")


@needs(REVIEWS)
@pytest.mark.parametrize(
    ("split", "reviews", "pieces", "unknown"), [("train", 1600, 215_958, 126), ("valid", 400, 55_838, 42)]
)
def test_reviews(tokenizer, split, reviews, pieces, unknown):
    data = read_labelled(REVIEWS / f"{split}.review.spm")
    assert len(data) == reviews and sum(data.labels) == reviews // 2 and data.names == ("0", "1")
    assert tokenizer.vocab_size == 50_001
    ids = tokenizer.encode_all(data.texts, in_pieces=True)
    assert sum(map(len, ids)) == pieces and sum((row == 3).sum() for row in ids) == unknown
    # The file's pieces are what the model makes of the text they spell: two ways to the same ids.
    for text, row in zip(data.texts, ids, strict=True):
        raw = text.replace(" ", "").replace("▁", " ").strip()
        assert tokenizer.encode(raw) == row.tolist()
        if (row != 3).all():
            assert tokenizer.encode(tokenizer.decode(row)) == row.tolist()

    batches = ClassifierBatches(ids, data.labels, rows=8)
    assert batches.count() == reviews // 8
    lengths = batches.lengths()
    as_they_come = padding_fraction(lengths, [np.arange(i, i + 8) for i in range(0, reviews, 8)])
    # The bound of a sorted bucket (see test_text_batches), and what the labs' order of the file costs.
    most = -(-reviews // 400) * 8 * (lengths.max() - lengths.min())
    assert batches.padding_fraction() <= most / (most + lengths.sum()) < 0.1 and as_they_come > 0.5
    print(f"{split}: padding {batches.padding_fraction():.3f}, in the file's order {as_they_come:.3f}")


@needs(REVIEWS)
def test_first_and_last_ids_of_the_labs(tokenizer):
    lines = (REVIEWS / "dict.txt").read_text(encoding="utf-8").split("\n")
    assert tokenizer.encode_pieces(lines[0].split(" ")[0]) == [4]
    assert tokenizer.encode_pieces(lines[49_996].split(" ")[0]) == [50_000]
    # The model alone, without dict.txt, gives the same ids.
    alone = PieceTokenizer.from_file(REVIEWS / "sentencepiece.french.model")
    assert alone.vocab_size == 50_001 and alone.pieces == tokenizer.pieces
    text = "Un livre *** que j'ai adoré, 10 € à peine !"
    assert alone.encode(text) == tokenizer.encode(text) and 3 in alone.encode(text)


@needs(REVIEWS)
def test_saved_and_loaded(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    text = "C'est le meilleur livre de l'année."
    assert again.encode(text) == tokenizer.encode(text) and again.decode(again.encode(text)) == text


@needs(REVIEWS)
def test_language_model_batches_of_reviews(tokenizer):
    ids = tokenizer.encode_all(read_documents(REVIEWS / "train.review.spm"), in_pieces=True)
    truncated = LanguageModelBatches(ids, max_len=512, rows=16)
    assert truncated.count() == 100
    targets = sum((batch.targets != batch.ignore).sum() for batch in truncated.epoch())
    assert targets == sum(min(len(row) + 1, 512) for row in ids)
    windows = LanguageModelBatches(ids, max_len=512, tokens=8192, windows=True)
    assert sum((batch.targets != batch.ignore).sum() for batch in windows.epoch()) == 215_958 + 1600
    assert all(batch.ids.size <= 8192 for batch in windows.epoch())


@needs(REVIEWS)
def test_bert_batches_of_reviews():
    tokenizer = LabTokenizer.from_files(REVIEWS / "dict.txt", extra_specials=BERT_SPECIALS)
    texts = read_documents(REVIEWS / "valid.review.spm")
    documents = [tokenizer.encode_all(split_sentences(text), in_pieces=True) for text in texts]
    batches = BertBatches(documents, tokenizer, max_len=128, rows=32, ignore=-1)
    chosen = ordinary = 0
    for batch in batches.epoch():
        assert batch.ids.max() < tokenizer.vocab_size == 50_004
        chosen += (batch.masked_targets >= 0).sum()
        ordinary += batch.lengths.sum() - 3 * len(batch.lengths)
    assert 0.14 < chosen / ordinary < 0.17  # 15 %, rounded up for the shortest pairs


@needs(PAIRS)
def test_pairs():
    train, valid = read_pairs(PAIRS / "train.tsv"), read_pairs(PAIRS / "valid.tsv")
    assert len(train) == 120_443 and len(valid) == 2608
    assert not {source for source, _ in valid} & {source for source, _ in train}
    part = train[:20_000]
    english = WordTokenizer.train((source for source, _ in part), lower=True, min_count=2)
    french = WordTokenizer.train((target for _, target in part), lower=True, min_count=2)
    batches = TranslationBatches(
        english.encode_all(source for source, _ in part),
        french.encode_all(target for _, target in part),
        max_len=24,
        rows=64,
        drop_long=True,
    )
    assert batches.padding_fraction() < 0.15 and batches.dropped < 100
    assert sum(len(batch.index) for batch in batches.epoch()) == 20_000 - batches.dropped
    print(f"pairs: padding {batches.padding_fraction():.3f}, dropped {batches.dropped}")


@needs(NOVELS)
def test_novels():
    sections = read_sections(NOVELS / "novels.txt")
    assert len(sections) >= 100 and sum(map(len, sections)) == 230_414
    assert all(line.split() for line in sections[0])

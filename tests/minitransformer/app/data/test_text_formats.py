"""Labelled tables, `.spm` + `.label`, pairs: what they give, and the error for each way to be wrong."""

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer.app.data import DataError, read_documents, read_labelled, read_pairs


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def refused(line, what, call, path, **options):
    with pytest.raises(DataError) as caught:
        call(path, **options)
    assert caught.value.line == line, str(caught.value)
    assert what in str(caught.value), str(caught.value)


GOOD = {
    "a.tsv": "id\ttext\tlabel\n7\tbon livre\tpos\n8\tmauvais, livre\tneg\n",
    "a.csv": 'text,label\nbon livre,pos\n"mauvais, livre",neg\n',
    "a.jsonl": '{"text": "bon livre", "label": "pos"}\n\n{"label": "neg", "text": "mauvais, livre"}\n',
}


@pytest.mark.parametrize("name", GOOD)
def test_tables_agree(tmp_path, name):
    data = read_labelled(write(tmp_path, name, GOOD[name]))
    assert data.texts == ["bon livre", "mauvais, livre"]
    assert data.names == ("neg", "pos") and data.labels == [1, 0]
    assert len(data) == 2 and not data.in_pieces
    assert read_documents(tmp_path / name) == data.texts


def test_format_overrides_the_suffix(tmp_path):
    path = write(tmp_path, "a.dat", GOOD["a.csv"])
    assert read_labelled(path, "csv").labels == [1, 0]
    refused(0, "suffix '.dat'", read_labelled, path)
    with pytest.raises(ValueError, match="choose one of"):
        read_labelled(path, "xml")
    assert read_documents(write(tmp_path, "b.csv", "a,b\n"), "lines") == ["a,b"]


def test_columns_without_header_and_by_name(tmp_path):
    path = write(tmp_path, "a.tsv", "1\tone\n0\ttwo\n")
    data = read_labelled(path, text=1, label=0, header=False)
    assert data.texts == ["one", "two"] and data.labels == [1, 0]
    path = write(tmp_path, "b.csv", "review,sentiment\nfine,1\n")
    assert read_labelled(path, text="review", label="sentiment").texts == ["fine"]
    assert read_labelled(write(tmp_path, "c.csv", "fine,0\nbad,1\n"), header=False).labels == [0, 1]


def test_missing_columns(tmp_path):
    refused(1, "a column 'label'", read_labelled, write(tmp_path, "a.tsv", "text\tstars\nx\t1\n"))
    refused(3, "1 column(s)", read_labelled, write(tmp_path, "a.tsv", "text\tlabel\nx\t1\ny\n"))
    refused(4, "1 column(s)", read_labelled, write(tmp_path, "a.csv", 'text,label\n"x\ny",1\nz\n'))
    refused(1, "no key 'label'", read_labelled, write(tmp_path, "a.jsonl", '{"text": "x"}\n'))


def test_labels_unknown_empty_and_too_many(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabel\nx\tpos\ny\tpso\n")
    refused(3, "the label 'pso'", read_labelled, path, labels=["neg", "pos"])
    refused(2, "empty label", read_labelled, write(tmp_path, "b.tsv", "text\tlabel\nx\t\n"))
    rows = "".join(f"1\tdocument {i}\n" for i in range(200))
    refused(102, "different labels", read_labelled, write(tmp_path, "c.tsv", "text\tlabel\n" + rows))


def test_whole_number_labels_keep_their_value(tmp_path):
    # Numbering the labels found would call the only class of this file 0.
    assert read_labelled(write(tmp_path, "a.tsv", "text\tlabel\nx\t1\ny\t1\n")).labels == [1, 1]
    data = read_labelled(write(tmp_path, "b.tsv", "text\tlabel\nx\t10\ny\t9\n"))
    assert data.labels == [10, 9] and len(data.names) == 11
    # "01" is a name, not the number 1; a number of many digits is no class.
    assert read_labelled(write(tmp_path, "c.tsv", "text\tlabel\nx\t01\ny\t1\n")).names == ("01", "1")
    assert read_labelled(write(tmp_path, "d.tsv", "text\tlabel\nx\t" + "9" * 5000 + "\n")).labels == [0]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"text": "x", "label": }', "malformed JSON"),
        ("[" * 100_000, "malformed JSON|nested"),
        ('{"text": "x", "label": ' + "9" * 5000 + "}", "a number"),
        ('{"text": "x", "label": NaN}', "NaN"),
        ('["x", 1]', "a JSON list"),
        ('{"text": 3, "label": 1}', "of type int"),
        ('{"text": null, "label": 1}', "of type NoneType"),
        ('{"text": "x", "label": true}', "of type bool"),
        ('{"text": "x", "label": 1.5}', "of type float"),
        ('{"text": "x", "label": {"a": 1}}', "of type dict"),
        ('{"text": "a\\ud800b", "label": 1}', "surrogate"),
        ('{"text": "a\\u0000b", "label": 1}', "NUL"),
    ],
    ids=lambda value: value[:30],
)
def test_json_lines_of_wrong_shape(tmp_path, content, what):
    path = write(tmp_path, "a.jsonl", '{"text": "ok", "label": 1}\n' + content + "\n")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert caught.value.line == 2 and any(part in str(caught.value) for part in what.split("|"))


def test_json_surrogate_pair_is_one_character(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "\\ud83d\\ude00", "label": 1}\n')
    assert read_labelled(path).texts == ["\U0001f600"]


def test_csv_quotes(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n"he said ""no""\nand left",0\n')
    assert read_labelled(path).texts == ['he said "no"\nand left']
    refused(3, "malformed CSV", read_labelled, write(tmp_path, "a.csv", 'text,label\nx,1\n"y,1\nz,1\n'))
    refused(2, "malformed CSV", read_labelled, write(tmp_path, "a.csv", 'text,label\n"x"y,1\n'))


def test_long_csv_cells_and_the_process_wide_limit(tmp_path):
    # The csv module refuses cells over 131,072 characters unless told otherwise, for the whole process.
    before = csv.field_size_limit()
    data = read_labelled(write(tmp_path, "a.csv", "text,label\n" + "x" * 200_000 + ",1\n"))
    assert len(data.texts[0]) == 200_000 and csv.field_size_limit() == before
    many = 'text,label\n"' + "x\n" * 2000
    refused(2, "malformed CSV", read_labelled, write(tmp_path, "b.csv", many), max_line_bytes=1000)
    assert csv.field_size_limit() == before


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), st.integers(0, 99)),
        min_size=1,
    )
)
def test_csv_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    data = read_labelled(path)
    assert list(zip(data.texts, data.labels, strict=True)) == rows


def test_spm_with_labels(tmp_path):
    path = write(tmp_path, "t.review.spm", "▁un ▁livre\n\n▁bon\u2028 ?\n")
    write(tmp_path, "t.label", "1\n0\n1\n")
    data = read_labelled(path)
    assert data.texts == ["▁un ▁livre", "", "▁bon\u2028 ?"] and data.labels == [1, 0, 1] and data.in_pieces
    other = write(tmp_path, "other", "0\n0\n0\n")
    assert read_labelled(path, label_path=other).labels == [0, 0, 0]
    assert read_documents(path) == ["▁un ▁livre", "▁bon\u2028 ?"]


def test_spm_with_wrong_labels(tmp_path):
    path = write(tmp_path, "t.spm", "a\nb\nc\n")
    with pytest.raises(DataError, match="no such file") as caught:
        read_labelled(path)
    assert caught.value.path.endswith("t.label")
    write(tmp_path, "t.label", "1\n0\n")
    refused(3, "after 2 line(s)", read_labelled, path)
    write(tmp_path, "t.label", "1\n0\n1\n1\n")
    with pytest.raises(DataError, match="after 3 line") as caught:
        read_labelled(path)
    assert caught.value.path.endswith("t.spm")
    write(tmp_path, "t.label", "1\n2\n1\n")
    with pytest.raises(DataError, match="the label '2'") as caught:
        read_labelled(path)
    assert caught.value.line == 2 and caught.value.path.endswith("t.label")
    write(tmp_path, "e.label", "")
    refused(1, "empty file", read_labelled, write(tmp_path, "e.spm", ""))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n", "text\tlabel\n"])
def test_empty_tables(tmp_path, name, content):
    content = content.replace("\t", ",") if name == "a.csv" else content
    if name == "a.jsonl" and "text" in content:
        return
    refused(1, "empty file", read_labelled, write(tmp_path, name, content))


def test_pairs(tmp_path):
    path = write(tmp_path, "p.tsv", "Hi.\tSalut.\tCC-BY (x)\n\nRun!\tCours !\n")
    assert read_pairs(path) == [("Hi.", "Salut."), ("Run!", "Cours !")]
    assert read_pairs(path, source=1, target=0)[0] == ("Salut.", "Hi.")
    refused(3, "2 column(s)", read_pairs, path, target=2)
    refused(2, "1 column(s)", read_pairs, write(tmp_path, "q.tsv", "a\tb\nonly one\n"))
    refused(1, "an empty side", read_pairs, write(tmp_path, "q.tsv", "a\t \n"))
    refused(1, "empty file", read_pairs, write(tmp_path, "q.tsv", "\n"))
    with pytest.raises(ValueError, match="different columns"):
        read_pairs(path, source=1)

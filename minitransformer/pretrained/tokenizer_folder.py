"""The tokenizer of a model's folder in Hugging Face's layout.

    tokenizer.json              everything in one file: WordPiece or byte pairs, how words are cut, special tokens
    vocab.txt                   WordPiece: one piece a line in the order of their ids; options in tokenizer_config.json
    vocab.json with merges.txt  byte pairs as GPT-2 published them; special tokens in special_tokens_map.json

What a file asks for and is not known here is an error of one line, never a tokenizer that is nearly right.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitransformer.errors import DataError, UserError, excerpt
from minitransformer.errors import Path as AnyPath
from minitransformer.pretrained.byte_pair import PATTERNS, BytePair
from minitransformer.pretrained.tokenizer import Tokenizer
from minitransformer.pretrained.tokenizer_lists import ADVICE, byte_pair, check_ids, read_json, read_text, two_parts
from minitransformer.pretrained.wordpiece import INSIDE, LONGEST_WORD, SPECIAL, WordPiece


def read_folder(folder: AnyPath) -> Tokenizer:
    """The tokenizer that lies in a folder."""
    folder = Path(folder)
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer_json(folder / "tokenizer.json")
    if (folder / "vocab.txt").is_file():
        return read_vocab_txt(folder / "vocab.txt")
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return read_merges(folder)
    files = "tokenizer.json, vocab.txt, or vocab.json with merges.txt"
    raise DataError(folder, 0, "no tokenizer", files, "check the folder's name")


def read_vocab_txt(path: AnyPath) -> WordPiece:
    """BERT's vocabulary; lower case unless a tokenizer_config.json beside it says otherwise."""
    pieces = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    while pieces and not pieces[-1]:
        pieces.pop()
    vocabulary: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if piece in vocabulary:
            found = f"{excerpt(piece)} as on line {vocabulary[piece] + 1}"
            raise DataError(path, number + 1, found, "each piece once", ADVICE)
        vocabulary[piece] = number
    config = Path(path).with_name("tokenizer_config.json")
    settings = read_json(config) if config.is_file() else {}
    return WordPiece(
        vocabulary,
        lower=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        chinese=settings.get("tokenize_chinese_chars", True),
    )


def read_merges(folder: AnyPath) -> BytePair:
    """GPT-2's and BART's vocab.json and merges.txt; <|endoftext|> is special where no special_tokens_map.json is."""
    folder = Path(folder)
    vocabulary = read_json(folder / "vocab.json")
    check_ids(folder / "vocab.json", vocabulary)
    lines = read_text(folder / "merges.txt").split("\n")
    merges = [
        two_parts(folder / "merges.txt", number, line.removesuffix("\r"))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#version")
    ]
    names = folder / "special_tokens_map.json"
    roles = read_json(names) if names.is_file() else {"eos_token": "<|endoftext|>"}
    with _understood(names):
        listed = {role: value if isinstance(value, list) else [value] for role, value in roles.items()}
        named = {
            role: [token if isinstance(token, dict) else {"content": token} for token in tokens]
            for role, tokens in listed.items()
        }
        cuts = _cuts(
            {**token, "id": vocabulary[token["content"]], "special": True}
            for tokens in named.values()
            for token in tokens
            if token["content"] in vocabulary
        )
        before, after = (
            [vocabulary[token["content"]] for token in named.get(role, [])] for role in ("cls_token", "sep_token")
        )
        return byte_pair(folder / "merges.txt", vocabulary, merges, before=before, after=after, **cuts)


def read_tokenizer_json(path: AnyPath) -> Tokenizer:
    """Every part of the file is understood or refused."""
    data = read_json(path)
    with _understood(path):
        model, normalizer = data["model"], data.get("normalizer") or {"type": None}
        vocabulary, tokens = model["vocab"], data.get("added_tokens") or []
        check_ids(path, vocabulary)
        before, after = _around(data.get("post_processor"))
        if "merges" in model:
            _expect("the normalizer", normalizer["type"], None)
            for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
                _expect(option, model.get(option) or None, None)
            return byte_pair(
                path,
                vocabulary,
                [two_parts(path, 0, merge) for merge in model["merges"]],
                before=before,
                after=after,
                pattern=_pattern(data["pre_tokenizer"]),
                whole_words=bool(model.get("ignore_merges")),
                **_cuts(tokens),
            )
        _expect("the model's type", model.get("type"), "WordPiece")
        _expect("the mark of inner pieces", model["continuing_subword_prefix"], INSIDE)
        _expect("the longest word", model["max_input_chars_per_word"], LONGEST_WORD)
        _expect("the unknown token", model["unk_token"], "[UNK]")
        _expect("the pre_tokenizer", data["pre_tokenizer"], {"type": "BertPreTokenizer"})
        _expect("the normalizer", (normalizer["type"], normalizer.get("clean_text")), ("BertNormalizer", True))
        _expect("the frame of a text", (before, after), ([vocabulary["[CLS]"]], [vocabulary["[SEP]"]]))
        for token in tokens:
            _expect(f"normalized, of {token['content']!r}", token.get("normalized", False), False)
        cuts = _cuts(tokens)
        _expect("the special tokens", set(cuts.pop("special")), set(SPECIAL))
        return WordPiece(
            vocabulary,
            lower=normalizer["lowercase"],
            strip_accents=normalizer["strip_accents"],
            chinese=normalizer["handle_chinese_chars"],
            **cuts,
        )


def _pattern(splitter: dict[str, Any]) -> str:
    """How words are cut: a name of PATTERNS, or the expression that the file gives."""
    parts = splitter["pretokenizers"] if splitter["type"] == "Sequence" else [splitter]
    _expect("add_prefix_space", parts[-1].get("add_prefix_space", False), False)
    kinds, regex = [part["type"] for part in parts], parts[-1].get("use_regex", True)
    if kinds == ["ByteLevel"] and regex:
        return "gpt2"
    if kinds == ["Digits", "ByteLevel"] and regex and parts[0]["individual_digits"]:
        return "smollm"
    _expect("the pre_tokenizer", (kinds, regex), (["Split", "ByteLevel"], False))
    _expect("the split", (parts[0]["behavior"], parts[0]["invert"]), ("Isolated", False))
    pattern = parts[0]["pattern"]["Regex"]
    return pattern if pattern in PATTERNS.values() else with_the_rest(pattern)


def with_the_rest(pattern: str) -> str:
    """An expression for words, and for what it does not match, which is a word too."""
    return f"{pattern}|(?s:(?!{pattern}).)+"


def _around(processor: dict[str, Any] | None) -> tuple[list[int], list[int]]:
    """The ids that go before and after a text."""
    if processor is None or processor["type"] == "ByteLevel":
        return [], []
    kind = processor["type"]
    if kind in ("RobertaProcessing", "BertProcessing"):
        return [processor["cls"][1]], [processor["sep"][1]]
    if kind == "Sequence":
        parts = [_around(part) for part in processor["processors"]]
        return sum((part[0] for part in reversed(parts)), []), sum((part[1] for part in parts), [])
    _expect("the post_processor", kind, "TemplateProcessing")
    sides: tuple[list[int], list[int]] = [], []
    after = False
    for item in processor["single"]:
        if "Sequence" in item:
            after = True
        else:
            sides[after].extend(processor["special_tokens"][item["SpecialToken"]["id"]]["ids"])
    return sides


def _cuts(tokens: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of Tokenizer that speak of tokens to be cut out of a text."""
    cuts: dict[str, Any] = {"special": {}, "added": {}, "absorb_left": set(), "absorb_right": set()}
    for token in tokens:
        name = token["content"]
        _expect(f"single_word, of {name!r}", token.get("single_word", False), False)
        cuts["special" if token["special"] else "added"][name] = token["id"]
        if token.get("lstrip"):
            cuts["absorb_left"].add(name)
        if token.get("rstrip"):
            cuts["absorb_right"].add(name)
    return cuts


class _Unknown(Exception):
    """A setting that is not known here."""


def _expect(what: str, found: object, known: object) -> None:
    if found != known:
        raise _Unknown(f"{what} is {found!r}, but only {known!r} is known here")


@contextmanager
def _understood(path: AnyPath) -> Iterator[None]:
    """Whatever cannot be read in a file is an error of one line that names the file."""
    try:
        yield
    except UserError:
        raise
    except _Unknown as error:
        raise DataError(path, 0, str(error), "a tokenizer of a known kind", "choose another model") from None
    except re.error as error:
        raise DataError(path, 0, f"an expression for words with {error}", "one that `re` can read", ADVICE) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        found = f"a part that is missing or of the wrong kind ({type(error).__name__}: {error})"
        raise DataError(path, 0, found, "a tokenizer file", ADVICE) from None

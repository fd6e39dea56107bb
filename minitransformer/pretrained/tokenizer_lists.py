"""Byte-pair tokenizers from lists of tokens and merges: a GGUF file holds such lists, tiktoken writes a rank file.

Also what all readers of tokenizers share: every fault of a file is an error of one line that names it.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minitransformer.errors import DataError, excerpt
from minitransformer.errors import Path as AnyPath
from minitransformer.pretrained.byte_pair import BytePair, from_characters, pairs_of_merges, pairs_of_ranks

ADVICE = "fetch the file again from where the model came from"
GGUF_PATTERNS = {"gpt-2": "gpt2", "smollm": "smollm", "llama-bpe": "llama3"}
GGUF_NORMAL, GGUF_CONTROL, GGUF_USER_DEFINED = 1, 3, 4  # kinds of tokens; the others are never written


def from_gguf(
    tokens: Sequence[str],
    merges: Sequence[str],
    types: Sequence[int],
    pre: str,
    *,
    before: Iterable[int] = (),
    source: AnyPath = "GGUF",
) -> BytePair:
    """tokenizer.ggml.tokens, .merges, .token_type and .pre of a GGUF file, which errors name as `source`.

    before: the ids that start a text, if tokenizer.ggml.add_bos_token asks for it"""
    if pre not in GGUF_PATTERNS:
        known = ", ".join(GGUF_PATTERNS)
        raise DataError(source, 0, f"tokenizer.ggml.pre {excerpt(pre)}", f"one of {known}", "choose another model")
    if len(types) != len(tokens):
        raise DataError(source, 0, f"{len(types)} token types", f"{len(tokens)}, one for each token", ADVICE)
    kinds: dict[int, dict[str, int]] = {kind: {} for kind in set(types) | {GGUF_CONTROL, GGUF_USER_DEFINED}}
    for i, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        kinds[kind][token] = i
    return byte_pair(
        source,
        kinds.get(GGUF_NORMAL, {}),
        [two_parts(source, 0, merge) for merge in merges],
        special=kinds[GGUF_CONTROL],
        added=kinds[GGUF_USER_DEFINED],
        before=before,
        pattern=GGUF_PATTERNS[pre],
        whole_words=pre == "llama-bpe",
    )


def read_ranks(path: AnyPath, special: Sequence[str] = (), *, pattern: str = "gpt2") -> BytePair:
    """A rank file of tiktoken: a token in base64 and its number on each line. Special tokens get the next numbers."""
    tokens: dict[bytes, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            token, rank = line.split()
            tokens[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise DataError(path, number, excerpt(line), "a token in base64 and its number", ADVICE) from None
    check_ids(path, tokens)
    names = {name: len(tokens) + i for i, name in enumerate(special)}
    return BytePair(tokens, pairs_of_ranks(tokens), names, pattern=pattern)


def byte_pair(
    path: AnyPath,
    vocabulary: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    special: Mapping[str, int],
    added: Mapping[str, int] | None = None,
    **options: Any,
) -> BytePair:
    """A tokenizer from tokens and merges as files write them; `options` are those of BytePair."""
    cut = set(special) | set(added or ())
    check_ids(path, vocabulary)
    try:
        pairs = pairs_of_merges(vocabulary, merges)
    except KeyError as error:
        raise DataError(path, 0, f"a merge with {excerpt(error.args[0])}", "tokens of the vocabulary", ADVICE) from None
    try:
        tokens = {from_characters(token): i for token, i in vocabulary.items() if token not in cut}
    except KeyError as error:
        raise DataError(path, 0, f"{excerpt(error.args[0])} in a token", "signs that stand for bytes", ADVICE) from None
    return BytePair(tokens, pairs, special, added=added, **options)


def two_parts(path: AnyPath, line: int, merge: Any) -> tuple[str, str]:
    """A merge: "Ġ t", or ["Ġ", "t"] in tokenizer.json."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise DataError(path, line, f"the merge {excerpt(merge)}", "two tokens", ADVICE)
    return parts[0], parts[1]


def check_ids(path: AnyPath, tokens: Mapping[Any, Any]) -> None:
    """One id for each token, from 0 on, none twice: a model has a row of weights for each."""
    seen: dict[int, Any] = {}
    for token, i in tokens.items():
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < 2**31:
            raise DataError(path, 0, f"the id {excerpt(i)} of {excerpt(token)}", "a number from 0 on", ADVICE)
        if seen.setdefault(i, token) != token:
            raise DataError(path, 0, f"the id {i} for {excerpt(seen[i])} and {excerpt(token)}", "one token", ADVICE)
    if not tokens:
        raise DataError(path, 0, "no tokens", "a vocabulary", ADVICE)


def read_text(path: AnyPath) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(path, 0, f"no UTF-8 at byte {error.start}", "text", ADVICE) from None
    except OSError as error:
        raise DataError(path, 0, error.strerror or str(error), "a file to read", "check the path") from None


def read_json(path: AnyPath) -> dict[str, Any]:
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(path, error.lineno, f"no JSON ({error.msg})", "JSON", ADVICE) from None
    except RecursionError:
        raise DataError(path, 0, "JSON nested without end", "JSON", ADVICE) from None
    if not isinstance(data, dict):
        raise DataError(path, 0, excerpt(data), 'a JSON object, {"name": value, ...}', ADVICE)
    return data

"""A tokenizer as the files that others read: tokenizer.json, which holds all of it, and tokenizer_config.json, which
names the special tokens by what they are for. WordPiece also gets BERT's vocab.txt.

It is the way back of `tokenizer_folder`, and knows what that knows."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from minitransformer.errors import UserError
from minitransformer.pretrained.byte_pair import PATTERNS, BytePair, to_characters
from minitransformer.pretrained.tokenizer import Tokenizer
from minitransformer.pretrained.tokenizer_folder import with_the_rest
from minitransformer.pretrained.wordpiece import INSIDE, LONGEST_WORD, WordPiece

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
ROLES = {  # name of a special token → what it is for
    "[PAD]": "pad_token", "[UNK]": "unk_token", "[CLS]": "cls_token", "[SEP]": "sep_token", "[MASK]": "mask_token",
    "<pad>": "pad_token", "<s>": "bos_token", "</s>": "eos_token", "<mask>": "mask_token", "<unk>": "unk_token",
    "<|begin_of_text|>": "bos_token", "<|end_of_text|>": "eos_token", "<|endoftext|>": "eos_token",
}  # fmt: skip


def files_of(tokenizer: Any) -> dict[str, bytes]:
    """File name → content."""
    if isinstance(tokenizer, WordPiece):
        parts = _word_piece(tokenizer)
        by_id = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)
        more = {"vocab.txt": "".join(f"{piece}\n" for piece in by_id).encode()}
    elif isinstance(tokenizer, BytePair):
        parts, more = _byte_pair(tokenizer), {}
    else:
        raise UserError(
            f"a {type(tokenizer).__name__} cannot be written as others' files: they know WordPiece and byte pairs"
        )
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": _added(tokenizer), **parts}
    return {
        "tokenizer.json": (json.dumps(whole, ensure_ascii=False) + "\n").encode(),
        "tokenizer_config.json": (json.dumps(_config(tokenizer), indent=2) + "\n").encode(),
        **more,
    }


def _added(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    listed = []
    for kind, special in ((tokenizer.special, True), (tokenizer.added, False)):
        for name, i in kind.items():
            edges = {"lstrip": name in tokenizer.absorb_left, "rstrip": name in tokenizer.absorb_right}
            listed.append({"id": i, "content": name, "single_word": False, **edges, "normalized": False})
            listed[-1]["special"] = special
    return sorted(listed, key=lambda token: token["id"])


def _around(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """What goes before and after a text. A second text, where BERT reads two, is followed by the end mark again."""
    names = {i: name for name, i in tokenizer.special.items()}
    before, after = ([names[i] for i in side] for side in (tokenizer.before, tokenizer.after))
    if not before and not after:
        return None

    def marks(side: list[str], segment: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": name, "type_id": segment}} for name in side]

    first = [*marks(before, 0), {"Sequence": {"id": "A", "type_id": 0}}, *marks(after, 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, {"Sequence": {"id": "B", "type_id": 1}}, *marks(after, 1)],
        "special_tokens": {
            name: {"id": name, "ids": [tokenizer.special[name]], "tokens": [name]} for name in {*before, *after}
        },
    }


def _word_piece(tokenizer: WordPiece) -> dict[str, Any]:
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": tokenizer.chinese,
            "strip_accents": tokenizer.strip_accents,
            "lowercase": tokenizer.lower,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _around(tokenizer),
        "decoder": {"type": "WordPiece", "prefix": INSIDE, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": INSIDE,
            "max_input_chars_per_word": LONGEST_WORD,
            "vocab": tokenizer.vocabulary,
        },
    }


def _byte_pair(tokenizer: BytePair) -> dict[str, Any]:
    written = {i: to_characters(token) for token, i in tokenizer.tokens.items()}
    cut = tokenizer.special | tokenizer.added
    return {
        "normalizer": None,
        "pre_tokenizer": _splitter(tokenizer.pattern),
        "post_processor": _around(tokenizer) or BYTES | {"use_regex": True},
        "decoder": BYTES | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.whole_words,
            "vocab": {token: i for i, token in sorted([*written.items(), *((i, name) for name, i in cut.items())])},
            "merges": [[written[left], written[right]] for left, right in _merges(tokenizer)],
        },
    }


def _merges(tokenizer: BytePair) -> list[tuple[int, int]]:
    """Pairs in the order of training. Where only ranks are known, several pairs make one token, and all of them may be
    merged: the one that was is what the merges before it leave of the token's bytes."""
    order = sorted(tokenizer.pairs, key=lambda pair: tokenizer.pairs[pair][0])
    made: dict[int, list[tuple[int, int]]] = {}
    for pair in order:
        made.setdefault(tokenizer.pairs[pair][1], []).append(pair)
    if len(made) == len(order):
        return order
    names = {i: token for token, i in tokenizer.tokens.items()}
    found = []
    for token, pairs in made.items():
        parts = [tokenizer.tokens[bytes([byte])] for byte in names[token]]
        while len(parts) > 2:
            ranks = [tokenizer.pairs.get(pair, (token, token))[0] for pair in pairwise(parts)]
            first = ranks.index(min(ranks))
            parts[first : first + 2] = [tokenizer.pairs[parts[first], parts[first + 1]][1]]
        found.append((parts[0], parts[1]) if (parts[0], parts[1]) in pairs else pairs[0])
    return found


def _splitter(pattern: str) -> dict[str, Any]:
    """How words are cut, in others' words."""
    if pattern == "gpt2":
        return BYTES | {"use_regex": True}
    if pattern == "smollm":
        digits = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [digits, BYTES | {"use_regex": True}]}
    expression = PATTERNS.get(pattern, pattern)
    half = expression[: (len(expression) - len(with_the_rest(""))) // 2]
    if expression == with_the_rest(half):
        expression = half
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, BYTES | {"use_regex": False}]}


def _config(tokenizer: Tokenizer) -> dict[str, Any]:
    roles = {role: name for name, role in ROLES.items() if name in tokenizer.special}
    return {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}

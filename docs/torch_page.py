"""The page "From PyTorch": what is called alike, what has another name, what is missing on purpose."""

import inspect

import autograd
from autograd.torch_names import INSTEAD, TorchNames
from minitransformer import layers, optim
from minitransformer.module import Module

# One program twice: a layer of attention learns which letter comes next. Tests run both, from the same weights.
THERE = """import torch
import torch.nn.functional as F
from torch import nn

class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 32)
        self.attn = nn.MultiheadAttention(
            32, 2, batch_first=True)
        self.out = nn.Linear(32, 256)

    def forward(self, ids):
        x = self.embed(ids)
        y, _ = self.attn(x, x, x, attn_mask=later)
        return self.out(x + y)

torch.manual_seed(0)
model = Next()
optimizer = torch.optim.Adam(
    model.parameters(), lr=1e-2)
text = b"to be or not to be, " * 17
rows = torch.tensor(list(text)).reshape(20, 17)
later = torch.ones(16, 16).triu(1).bool()
for step in range(50):
    logits = model(rows[:, :-1]).transpose(1, 2)
    loss = F.cross_entropy(logits, rows[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    optimizer.step()
print(loss.item())
"""

HERE = """import numpy as np
import autograd.functional as F
from minitransformer import layers as nn, module, optim

class Next(module.Module):
    def __init__(self, init):

        self.embed = nn.Embedding(256, 32, init=init)
        self.attn = nn.MultiheadAttention(
            32, 2, init=init)
        self.out = nn.Linear(32, 256, init=init)

    def forward(self, ids):
        x = self.embed(ids)
        y = self.attn(x, is_causal=True)
        return self.out(x + y)


model = Next(module.Init(seed=0))
optimizer = optim.Adam(
    model.parameters(), lr=1e-2)
text = b"to be or not to be, " * 17
rows = np.array(list(text)).reshape(20, 17)

for step in range(50):
    logits = model(rows[:, :-1])
    loss = F.cross_entropy(logits, rows[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optim.clip_grad_norm(model.parameters(), 1)
    optimizer.step()
print(loss.item())
"""

# What is written alike and gives something else, without an error or with one: there, here
SAME_NAME = (
    ("`F.split(x, 2, 1)`", "pieces of size 2", "2 pieces, as in NumPy; `[2, 2]` gives sizes in both"),
    ("`x.var()`, `x.std()`", "divided by n - 1", "divided by n, as in NumPy; `correction=1` for n - 1"),
    ("`x.max(1)`, `x.min(1)`", "values and their places", "values only; `x.argmax(1)` gives the places of the largest"),
    ("`F.cross_entropy(x, y)`", "classes on axis 1; -100 is ignored", "classes on the last axis; nothing is ignored"),
    ("third argument of `F.cross_entropy`", "weights of classes", "`ignore_index`; there are no weights of classes"),
    ("`F.layer_norm`, `F.rms_norm`", "`(x, shape, weight, ...)`", "`(x, weight, ...)`: always along the last axis"),
    ("`F.embedding`", "`(ids, weight)`", "`(weight, ids)`"),
)

# PyTorch's line, ours, what to know; a test runs nothing of the left column, but evaluates every name on the right
SIDE_BY_SIDE = (
    ("`import torch`", "`import autograd`", ""),
    ("`import torch.nn.functional as F`", "`import autograd.functional as F`", "names as there; arguments too, but for the first table"),
    ("`torch.tensor(a, requires_grad=True)`", "`autograd.Tensor(a, requires_grad=True)`", "copies, as there"),
    ("`torch.zeros`, `ones`, `randn`", "`autograd.zeros`, `ones`, `randn`", ""),
    ("`torch.manual_seed(0)`", "`autograd.manual_seed(0)`", "dropout and randn; a model takes `seed=0` itself"),
    ("`torch.no_grad()`", "`autograd.no_grad()`", ""),
    ("`torch.autograd.Function`", "`autograd.Function`", "methods of an instance: `self.save(x)`, `self.saved`; no `ctx`"),
    ("`torch.autograd.gradcheck`", "`autograd.gradcheck`", "tolerance 1e-7; names the worst entry and what is likely wrong"),
    ("`dim=`, `keepdim=`", "`axis=`, `keepdims=`", "both spellings work"),
    ("`x.transpose(1, 2)`", "`x.transpose(1, 2)`", "two axes are swapped, as there; all axes: a new order, as in NumPy"),
    ("`torch.einsum`", "`a @ b`, `x.permute(...)`", "products and new orders of axes say the same"),
    ("`x.to(\"cuda\")`, `.cpu()`", "`kernels.use(\"cupy\")`, `x.to(\"numpy\")`", "a backend instead of a device; numba is the default"),
    ("`torch.nn.Module`", "`minitransformer.module.Module`", "no `super().__init__()` needed"),
    ("`torch.nn.Linear`, `LayerNorm`, ...", "`minitransformer.layers`", "weights have PyTorch's names and shapes"),
    ("`torch.nn.MultiheadAttention`", "`minitransformer.layers.MultiheadAttention`", "batch first; one input for self-attention"),
    ("`torch.optim.Adam`, `AdamW`, `SGD`", "`minitransformer.optim`", "the same formulas, checked against PyTorch's"),
    ("`clip_grad_norm_`", "`minitransformer.optim.clip_grad_norm`", ""),
    ("`lr_scheduler`", "`minitransformer.optim.warmup_cosine(...)`", "a function of the step; set `optimizer.lr` yourself"),
    ("`F.cross_entropy(model(x).view(-1, V), y.view(-1))`", "`model.loss(x, y)`", "in one kernel, without storing the logits"),
)  # fmt: skip

MISSING = (
    ("half precision, bfloat16, autocast", "float32 and float64 are enough to learn from, and to check"),
    ("in-place operations (`x.add_`)", "what the tape remembers must not change; the error says so"),
    ("hooks", "`autograd.tape` answers questions about what was computed"),
    ("`DataLoader`, workers", "a batch is an array; a loop is a loop"),
    ("`torch.compile`, graphs", "kernels are written by hand, and can be read"),
    ("gradients of gradients", "backward is not recorded: the engine stays small enough for one sitting"),
    ("convolutions, images", "this is about transformers"),
)


def page() -> str:
    own = [name for name, value in vars(TorchNames).items() if not name.startswith("_") and value is not None]
    methods = ", ".join(f"`{name}`" for name in sorted(own))
    functions = ", ".join(f"`{name}`" for name in sorted(autograd.functional.__all__))
    modules = ", ".join(f"`{name}`" for name in dir(Module) if not name.startswith("_"))
    parts = ", ".join(
        f"`{name}`" for room in (layers, optim) for name, value in sorted(vars(room).items())
        if inspect.isclass(value) and value.__module__ == room.__name__ and not name.startswith("_")
    )  # fmt: skip
    rows = "\n".join(f"* - {theirs}\n  - {ours}\n  - {note}" for theirs, ours, note in SIDE_BY_SIDE)
    instead = "\n".join(f"* - `x.{name}`\n  - {_spelled(ours)}" for name, ours in sorted(INSTEAD.items()))
    same = "\n".join(f"* - {name}\n  - {there}\n  - {here}" for name, there, here in SAME_NAME)
    missing = "\n".join(f"* - {what}\n  - {why}" for what, why in MISSING)
    return f"""# From PyTorch

If you know PyTorch, you can read and write this engine at once: most names, argument orders, shapes of weights and
results are PyTorch's, and tests compare the numbers. This page is for the rest.

## One training loop, there and here

::::{{container}} pair
```{{code-block}} python
:caption: in PyTorch

{THERE}```

```{{code-block}} python
:caption: here

{HERE}```
::::

From the same weights both find the same losses, up to rounding. What differs: here weights come from an `Init` that the
layers share, and its seed is the only one; ids are NumPy arrays; attention takes one input and needs no mask to be
built; classes lie on the last axis.

## The same name, another result

Look at these first: most of them raise no error.

```{{list-table}} Written alike, computed otherwise
:header-rows: 1
:class: cards
:widths: 30 30 40

* - you write
  - in PyTorch
  - here
{same}
```

## Names in PyTorch and here

```{{list-table}} Line by line
:header-rows: 1
:class: cards torch
:widths: 34 34 32

* - in PyTorch
  - here
  - note
{rows}
```

## What works as you would type it

Methods of a Tensor under PyTorch's names: {methods}; and of course `backward`, `grad`, `detach`, `item`, `numpy`,
`reshape`, `sum`, `mean`, `max`, `var` and the operators.

In `autograd.functional`: {functions}.

Every layer and model has {modules}.

Classes: {parts}.

## What has another name

Asking for one of these raises an error that tells you the same.

```{{list-table}} Names of PyTorch that stay out, and what to write instead
:header-rows: 1
:class: cards
:widths: 30 70

* - in PyTorch
  - here
{instead}
```

## What is missing on purpose

```{{list-table}} Missing, and why
:header-rows: 1
:class: cards
:widths: 40 60

* - what
  - why
{missing}
```

## Weights

Layers carry PyTorch's names (`self_attn.in_proj_weight`, `linear1.bias`, `norm1.weight`), so a `state_dict` of
`torch.nn.TransformerEncoderLayer` fits an `EncoderLayer` as NumPy arrays. Files of weights are read without running
anything in them.
"""


def _spelled(text: str) -> str:
    """`code`; prose behind a semicolon or comma stays prose."""
    for mark in ("; ", ", "):
        code, found, prose = text.partition(mark)
        if found and " " in prose and code.count("(") == code.count(")"):
            return f"`{code}`{mark}{prose}"
    return f"`{text}`"

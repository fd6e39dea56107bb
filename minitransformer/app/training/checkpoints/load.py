"""From a verified checkpoint into a model and an optimizer: all of it, or nothing and a clear line."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Collection

import numpy as np

from kernels import BackendError
from minitransformer.app.training.checkpoints.arrays import ArrayInfo
from minitransformer.app.training.checkpoints.document import JsonObject
from minitransformer.app.training.checkpoints.files import DAMAGED
from minitransformer.app.training.checkpoints.folder import RunFolder
from minitransformer.app.training.checkpoints.snapshot import MODEL, OPTIMIZER, Checkpoint, read
from minitransformer.config import Config
from minitransformer.errors import CheckpointError, Path
from minitransformer.models import Model
from minitransformer.optim import Optimizer


def find(path: Path, which: str = "best") -> Checkpoint:
    """The checkpoint meant by a path: a step-*.json or .safetensors file, or the folder of a run, of which the
    `best` or the `latest` is taken."""
    path = os.fspath(path)
    if which not in ("best", "latest"):
        raise ValueError(f"which={which!r}: give 'best' or 'latest'")
    if os.path.isdir(path):
        folder = RunFolder(path)
        return folder.best() if which == "best" else folder.latest()
    if path.endswith(".safetensors"):
        path = path.removesuffix("safetensors") + "json"
    return read(path)


def load_into(checkpoint: Checkpoint, model: Model, optimizer: Optimizer | None = None) -> None:
    """Weights and random state into the model and, if one is given, moments and step into the optimizer."""
    _check_model(checkpoint, model)
    weights = _finite(checkpoint, checkpoint.load(MODEL))
    moments = _finite(checkpoint, checkpoint.load(OPTIMIZER)) if optimizer is not None else {}
    former = model.rng_state()
    try:
        _load_random_state(checkpoint, model)
        if optimizer is not None:
            _load_optimizer(checkpoint, optimizer, moments)
    except CheckpointError:
        model.set_rng_state(former)
        raise
    model.load_state_dict(weights)  # names, shapes and types were compared: it cannot fail half-way


def load_model(path: Path, which: str = "best") -> tuple[Model, Checkpoint]:
    """A new model with the weights of a checkpoint, ready to be used: `eval()` has been called."""
    checkpoint = find(path, which)
    kind, config = checkpoint.model["kind"], checkpoint.model["config"]
    if kind not in Model.kinds:
        raise CheckpointError(checkpoint.path, f"holds a {kind!r}", f"models are {', '.join(Model.kinds)}")
    _check_sizes(checkpoint)
    try:
        # first without values, which takes no memory: the config may ask for more weights than the file holds
        _check_weights(checkpoint, Model.kinds[kind](**{**config, "seed": None}))
        model = Model.kinds[kind](**config)
    except (CheckpointError, BackendError):
        raise
    except Exception as error:  # a damaged config can break a constructor anywhere
        raise _does_not_fit(checkpoint, f"no {kind} can be made of its settings ({error})") from error
    load_into(checkpoint, model)
    model.eval()
    return model, checkpoint


def _check_model(checkpoint: Checkpoint, model: Model) -> None:
    kind = type(model).__name__
    if checkpoint.model["kind"] != kind:
        found = f"belongs to another model: a {checkpoint.model['kind']}, not a {kind}"
        raise CheckpointError(checkpoint.path, found, "name a checkpoint of this kind of model")
    differing = differences(_settings(checkpoint, model.kind), model.settings())
    if differing:
        found = f"belongs to another model: {'; '.join(differing[:3])}"
        raise CheckpointError(checkpoint.path, found, "give the settings it was trained with, or another checkpoint")
    _check_weights(checkpoint, model)


def _finite(checkpoint: Checkpoint, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays themselves. We save none that is not finite; a model that has one answers with nothing but NaN."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise CheckpointError(checkpoint.path, f"its {name!r} holds a value that is not finite", DAMAGED)
    return arrays


def _settings(checkpoint: Checkpoint, kind: str) -> JsonObject:
    """The model's settings; one that came later than the checkpoint has its default."""
    try:
        return Config.of(kind, **checkpoint.model["config"]).settings(kind)
    except (TypeError, ValueError) as error:
        raise _does_not_fit(checkpoint, f"no {kind} can be made of its settings ({error})") from error


def _check_weights(checkpoint: Checkpoint, model: Model) -> None:
    """Every weight there, none too many, each of the right shape and type. Nothing is read or copied for it."""
    expected = {name: ArrayInfo(str(p.dtype), p.shape) for name, p in model.named_parameters()}
    wrong = _first_difference(checkpoint.infos(MODEL), expected)
    if wrong:
        raise _does_not_fit(checkpoint, wrong)


def _load_random_state(checkpoint: Checkpoint, model: Model) -> None:
    try:
        model.set_rng_state(checkpoint.model["rng"])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise _does_not_fit(checkpoint, f"its random state cannot be used ({error})") from error


def _load_optimizer(checkpoint: Checkpoint, optimizer: Optimizer, arrays: dict[str, np.ndarray]) -> None:
    kind = type(optimizer).__name__
    if checkpoint.optimizer["kind"] != kind:
        found = f"was trained with {checkpoint.optimizer['kind']}, not {kind}"
        raise CheckpointError(checkpoint.path, found, f"choose {checkpoint.optimizer['kind']} to resume it")
    former = copy.deepcopy(optimizer.state_dict())
    try:
        optimizer.load_state_dict({**checkpoint.optimizer["values"], **arrays})
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        optimizer.load_state_dict(former)
        raise _does_not_fit(checkpoint, f"the state of its optimizer does not fit ({error})") from error


def _check_sizes(checkpoint: Checkpoint) -> None:
    """What a model of these settings would cost beside its weights is bounded by the weights on the disk: layers are
    built one by one, and a table of positions has max_len · d_model entries."""
    arrays, config = checkpoint.infos(MODEL), checkpoint.model["config"]
    weights = sum(math.prod(info.shape) for info in arrays.values())
    sizes = {name: value for name, value in config.items() if type(value) is int and name != "seed"}
    for name, value in sizes.items():
        most = len(arrays) if name in ("n_layers", "n_encoder", "n_decoder") else max(weights, 2**20)
        if not 0 <= value <= most:
            raise _does_not_fit(checkpoint, f"{name}={value} does not belong to a model of {weights:,} weights")
    if sizes.get("max_len", 0) * sizes.get("d_model", 0) > max(16 * weights, 2**24):
        raise _does_not_fit(checkpoint, f"max_len={config['max_len']} is absurd for a model of {weights:,} weights")


def _first_difference(found: dict[str, ArrayInfo], expected: dict[str, ArrayInfo]) -> str | None:
    missing, surplus = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing:
        return f"it lacks the weight {missing[0]!r}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    if surplus:
        return f"it holds the unknown weight {surplus[0]!r}" + (f" and {len(surplus) - 1} more" if surplus[1:] else "")
    for name, info in expected.items():
        if found[name] != info:
            return f"its weight {name!r} is {found[name]}, the model's {info}"
    return None


def differences(saved: JsonObject, given: JsonObject, ignored: Collection[str] = ()) -> list[str]:
    """What two sets of settings disagree about, in words."""
    return [
        f"{name} was {_short(saved.get(name))}, now {_short(given.get(name))}"
        for name in sorted(saved.keys() | given.keys())
        if saved.get(name) != given.get(name) and name not in ignored
    ]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _does_not_fit(checkpoint: Checkpoint, found: str) -> CheckpointError:
    return CheckpointError(checkpoint.path, f"does not fit this model: {found}", "name another checkpoint")

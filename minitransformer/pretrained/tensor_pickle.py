"""The pickles in PyTorch's files, read without unpickling.

A pickle is a program for a small stack machine. Python's own machine calls whatever the program names, os.system as
well as the function that makes a tensor, so nobody should run a stranger's. The machine here knows the few instructions
that describe tensors, calls nothing, and refuses the rest. One tensor in such a program:

    GLOBAL torch._utils._rebuild_tensor_v2
    MARK
        MARK 'storage' GLOBAL torch.FloatStorage '0' 'cpu' 147456 TUPLE BINPERSID     storage 0 holds 147456 numbers
        0                                                                             the first of them that counts
        384 384 TUPLE2                                                                shape
        384 1 TUPLE2                                                                  strides: steps along each axis
        False  GLOBAL collections.OrderedDict EMPTY_TUPLE REDUCE                      needs a gradient? hooks
    TUPLE
    REDUCE                                                                            the call"""

from __future__ import annotations

import math
import pickletools
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from minitransformer.errors import Path, WeightsError, excerpt, one_line
from minitransformer.pretrained.weight_file import DAMAGED, MOST_AXES

STORAGES = {
    "torch.DoubleStorage": "F64", "torch.FloatStorage": "F32", "torch.HalfStorage": "F16",
    "torch.BFloat16Storage": "BF16", "torch.LongStorage": "I64", "torch.IntStorage": "I32",
    "torch.ShortStorage": "I16", "torch.CharStorage": "I8", "torch.ByteStorage": "U8", "torch.BoolStorage": "BOOL",
}  # fmt: skip
TENSOR, PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
ORDERED_DICT = "collections.OrderedDict"
KNOWN = {*STORAGES, TENSOR, PARAMETER, ORDERED_DICT}

NAMES = {instruction.code: instruction.name for instruction in pickletools.opcodes}
# every instruction that is known here, and how its argument is written (struct's letters)
LINES = "two lines"
INSTRUCTIONS = {
    "PROTO": "<B", "FRAME": "<Q", "STOP": None, "MARK": None,
    "NONE": None, "NEWTRUE": None, "NEWFALSE": None, "BINFLOAT": ">d",
    "BININT": "<i", "BININT1": "<B", "BININT2": "<H", "LONG1": "<B",
    "BINUNICODE": "<I", "SHORT_BINUNICODE": "<B",
    "EMPTY_DICT": None, "SETITEM": None, "SETITEMS": None, "EMPTY_LIST": None, "APPEND": None, "APPENDS": None,
    "EMPTY_TUPLE": None, "TUPLE": None, "TUPLE1": None, "TUPLE2": None, "TUPLE3": None,
    "BINPUT": "<B", "LONG_BINPUT": "<I", "MEMOIZE": None, "BINGET": "<B", "LONG_BINGET": "<I",
    "GLOBAL": LINES, "STACK_GLOBAL": None, "BINPERSID": None, "REDUCE": None, "BUILD": None,
}  # fmt: skip

CUT = "it ends before its last instruction"
NOT_WEIGHTS = "only tensors, numbers, strings, lists and dictionaries are read; save the state_dict, or as safetensors"
MOST_INSTRUCTIONS = 1_000_000  # a tensor takes about 30; an instruction of one byte may take 64 of memory
MOST_NAMES, MOST_LEVELS, LONGEST_NAME = 100_000, 8, 1000


@dataclass(frozen=True)
class Global:
    """Something that the pickle names. It is never imported."""

    name: str


@dataclass(frozen=True)
class Storage:
    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class TensorInfo:
    """Element [i, j, ...] is number `offset + i * strides[0] + j * strides[1] + ...` of the storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many numbers of the storage lie between the first and the last element, both included."""
        if math.prod(self.shape) == 0:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


def read_pickle(program: BinaryIO, path: Path) -> Any:
    """What the pickle builds, of dicts, lists, tuples, plain values and TensorInfos. Stops behind its last byte."""
    machine = _Machine(path)
    try:
        for _ in range(MOST_INSTRUCTIONS):
            name, argument = _next(program, path)
            if name == "STOP":
                return machine.stack.pop()
            machine.do(name, argument)
        raise WeightsError(path, f"its pickle has more than {MOST_INSTRUCTIONS:,} instructions", NOT_WEIGHTS)
    except WeightsError:
        raise
    except (ValueError, IndexError, KeyError, struct.error) as error:  # a cut or senseless program
        raise WeightsError(path, f"its pickle makes no sense ({one_line(str(error), 80)})", DAMAGED) from None


def _next(program: BinaryIO, path: Path) -> tuple[str, Any]:
    """An instruction and its argument. Those that are not known are refused before their arguments are looked at."""
    code = program.read(1).decode("latin-1")
    if not code:
        raise ValueError(CUT)
    name = NAMES.get(code, f"0x{ord(code):02x}")
    if name not in INSTRUCTIONS:
        raise WeightsError(path, f"its pickle uses the instruction {name}", NOT_WEIGHTS)
    layout = INSTRUCTIONS[name]
    if layout is None:
        return name, None
    if layout == LINES:
        return name, [program.readline().decode("utf-8").removesuffix("\n") for _ in range(2)]
    (argument,) = struct.unpack(layout, program.read(struct.calcsize(layout)))
    if "UNICODE" in name or name == "LONG1":  # the argument so far was a length
        content = program.read(argument)
        if len(content) != argument:
            raise ValueError(CUT)
        return name, int.from_bytes(content, "little", signed=True) if name == "LONG1" else content.decode("utf-8")
    return name, argument


class _Machine:
    def __init__(self, path: Path):
        self.path = path
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # a stack for each MARK that is open
        self.memo: dict[int, Any] = {}

    def do(self, instruction: str, argument: Any) -> None:
        push, pop = self.stack.append, self.stack.pop
        match instruction:
            case "PROTO" | "FRAME":
                pass
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                push(argument)
            case "NONE":
                push(None)
            case "NEWTRUE" | "NEWFALSE":
                push(instruction == "NEWTRUE")
            case "EMPTY_DICT":
                push({})
            case "EMPTY_LIST":
                push([])
            case "EMPTY_TUPLE":
                push(())
            case "MARK":
                self.below.append(self.stack)
                self.stack = []
            case "TUPLE":
                items = self.above_mark()
                self.stack.append(tuple(items))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = [pop() for _ in range(int(instruction[-1]))]
                push(tuple(reversed(items)))
            case "APPEND" | "APPENDS":
                items = [pop()] if instruction == "APPEND" else self.above_mark()
                self.expect(list, self.stack[-1]).extend(items)
            case "SETITEM" | "SETITEMS":
                items = [pop(), pop()][::-1] if instruction == "SETITEM" else self.above_mark()
                for key, value in zip(items[::2], items[1::2], strict=True):
                    self.expect(dict, self.stack[-1])[self.key(key)] = value
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case "GLOBAL":
                push(self.named(".".join(argument)))
            case "STACK_GLOBAL":
                name, module = self.expect(str, pop()), self.expect(str, pop())
                push(self.named(f"{module}.{name}"))
            case "BINPERSID":
                push(self.storage(pop()))
            case "REDUCE":
                arguments, function = pop(), pop()
                push(self.called(function, self.expect(tuple, arguments)))
            case "BUILD":  # PyTorch hangs version numbers on a state_dict: {"_metadata": ...}; nobody needs them
                state, target = pop(), self.stack[-1]
                if type(target) is not dict or type(state) is not dict or state.keys() - {"_metadata"}:
                    raise WeightsError(self.path, "its pickle sets attributes (BUILD)", NOT_WEIGHTS)

    def above_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def expect(self, kind: type, value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{type(value).__name__} instead of {kind.__name__}")
        return value

    def key(self, key: Any) -> str | int:
        """Whole numbers are keys in optimizers. Large ones could all fall into one slot of the dictionary: a trap."""
        if type(key) is not str and not (type(key) is int and 0 <= key < 1 << 31):
            raise WeightsError(self.path, f"a dictionary has a key of type {type(key).__name__}", NOT_WEIGHTS)
        return key

    def named(self, name: str) -> Global:
        if name not in KNOWN:
            raise WeightsError(self.path, f"its pickle asks for {excerpt(name)}", NOT_WEIGHTS)
        return Global(name)

    def called(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        name = self.expect(Global, function).name
        if name == ORDERED_DICT and not arguments:
            return {}
        if name == TENSOR and len(arguments) >= 4:
            return self.tensor(*arguments[:4])
        if name == PARAMETER and arguments:
            return self.expect(TensorInfo, arguments[0])
        raise WeightsError(self.path, f"its pickle calls {name} with {len(arguments)} arguments", NOT_WEIGHTS)

    def storage(self, description: Any) -> Storage:
        word, kind, key, _device, count = self.expect(tuple, description)[:5]
        name = self.expect(Global, kind).name
        if word != "storage" or name not in STORAGES or type(key) is not str or not _count(count):
            raise ValueError("a storage is not described as one")
        return Storage(STORAGES[name], key, count)

    def tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> TensorInfo:
        if type(storage) is not Storage or type(shape) is not tuple or type(strides) is not tuple:
            raise ValueError("a tensor is not described as one")
        if not (_count(offset) and all(map(_count, shape + strides)) and len(shape) == len(strides) <= MOST_AXES):
            raise ValueError("a tensor has an impossible place, shape or stride")
        info = TensorInfo(storage, offset, shape, strides)
        if offset + info.span > storage.count or math.prod(shape) > storage.count:
            raise WeightsError(self.path, "a tensor reaches beyond its storage", DAMAGED)
        return info


def _count(number: object) -> bool:
    return type(number) is int and 0 <= number < 1 << 48


def flatten(value: Any, path: Path) -> tuple[dict[str, TensorInfo], dict[str, Any]]:
    """Tensors and plain values by the names on the way to them: {"model": {"weight": ...}} gives "model.weight".

    A few bytes of pickle can describe a tree of a billion leaves, by using each branch twice; so names are counted."""
    tensors: dict[str, TensorInfo] = {}
    settings: dict[str, Any] = {}
    steps = 0

    def walk(prefix: str, value: Any, level: int) -> None:
        nonlocal steps
        steps += 1
        if steps > MOST_NAMES or level > MOST_LEVELS or len(prefix) > LONGEST_NAME:
            raise WeightsError(path, "its names are too many, too long or nested too deeply", NOT_WEIGHTS)
        if type(value) in (dict, list, tuple):
            for key, item in value.items() if type(value) is dict else enumerate(value):
                walk(f"{prefix}.{key}" if prefix else str(key), item, level + 1)
            return
        if prefix in tensors or prefix in settings:
            raise WeightsError(path, f"the name {excerpt(prefix)} stands for two things", DAMAGED)
        if type(value) is TensorInfo:
            tensors[prefix] = value
        elif value is None or type(value) in (bool, int, float, str):
            settings[prefix] = value
        else:
            raise WeightsError(path, f"{excerpt(prefix)} is a {type(value).__name__}", NOT_WEIGHTS)

    walk("", value, 0)
    return tensors, settings

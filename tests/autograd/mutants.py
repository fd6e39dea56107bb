"""Wrong derivative rules by the hundred: each takes the source of a right one and breaks it in one place.

    flipped sign        a + b → a - b,  a - b → a + b,  -a → a,  += → -=
    dropped term        a + b → a,  a + b → b (and for -)
    missing scale       a * b → a,  a * b → b,  a / b → a,  *= → =
    transposed operand  a @ b → b @ a,  a.T → a,  a.swapaxes(-1, -2) → a
    wrong axis          axis=0 → axis=1 and the other way round, keepdims=True left alone
    stale value         an argument or saved value in place of its neighbour
    swapped results     return dx, dw → return dw, dx
    lost gradient       return dx, dw → return dx * 0, dw

`mutants(function)` yields (description, source) pairs. Index arithmetic, loop limits and conditions are left alone:
breaking those shows that Python counts, not that the checker checks.
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator

SKIPPED_CALLS = {"range", "min", "max", "zeros", "empty", "zeros_like", "empty_like", "full", "prange"}


def mutants(function: Callable) -> Iterator[tuple[str, str]]:
    """Every mutant of a function or method, as a description and the source of the broken function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    names = [a.arg for a in definition.args.args if a.arg != "self"] + _unpacked(definition)
    for place, node in enumerate(_places(definition)):
        for description, change in _changes(node, names):
            broken = copy.deepcopy(tree)
            target = list(_places(broken.body[0]))[place]
            change(target)
            ast.fix_missing_locations(broken)
            line = getattr(node, "lineno", 0)
            yield f"line {line}, {description}: {ast.unparse(node)}", ast.unparse(broken)


def _unpacked(definition: ast.FunctionDef) -> list[str]:
    """Names bound from self.saved."""
    names = []
    for statement in ast.walk(definition):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "self.saved":
            for target in statement.targets:
                names += [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
    return names


def _places(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be broken, in a fixed order."""
    for child in ast.iter_child_nodes(root):
        yield from _places_inside(child)


def _places_inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in SKIPPED_CALLS:
            return
    if isinstance(node, ast.If | ast.IfExp):  # the condition stays
        yield node
        for branch in ast.iter_child_nodes(node):
            if branch is not node.test:
                yield from _places_inside(branch)
        return
    if isinstance(node, ast.For):
        for statement in node.body:
            yield from _places_inside(statement)
        return
    if isinstance(node, ast.Subscript):
        yield from _places_inside(node.value)
        return
    if isinstance(node, ast.Attribute) and node.attr == "dtype":  # all arrays of a rule share it
        return
    yield node
    yield from _places(node)


def _changes(node: ast.AST, names: list[str]) -> Iterator[tuple[str, Callable]]:
    if isinstance(node, ast.BinOp):
        yield from _binary_changes(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "flipped sign", lambda n: _become(n, n.operand)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        other = ast.Sub if isinstance(node.op, ast.Add) else ast.Add
        yield "flipped sign", lambda n: setattr(n, "op", other())
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
        yield "missing scale", lambda n: setattr(n, "value", ast.Constant(1))
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield "transposed operand", lambda n: _become(n, n.value)
    elif isinstance(node, ast.Call):
        yield from _call_changes(node)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield from _result_changes(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "lost gradient", lambda n: setattr(n, "value", ast.BinOp(n.value, ast.Mult(), ast.Constant(0)))
        yield "flipped sign", lambda n: setattr(n, "value", ast.BinOp(n.value, ast.Mult(), ast.Constant(-1)))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and len(names) > 1:
        other = names[(names.index(node.id) + 1) % len(names)]
        yield f"stale value {other}", lambda n: setattr(n, "id", other)


def _binary_changes(node: ast.BinOp) -> Iterator[tuple[str, Callable]]:
    if isinstance(node.op, ast.Add | ast.Sub):
        other = ast.Sub if isinstance(node.op, ast.Add) else ast.Add
        yield "flipped sign", lambda n: setattr(n, "op", other())
        yield "dropped second term", lambda n: _become(n, n.left)
        yield "dropped first term", lambda n: _become(n, n.right)
    elif isinstance(node.op, ast.Mult | ast.Div):
        yield "missing second factor", lambda n: _become(n, n.left)
        if isinstance(node.op, ast.Mult):
            yield "missing first factor", lambda n: _become(n, n.right)
    elif isinstance(node.op, ast.MatMult):
        yield (
            "transposed operands",
            lambda n: (lambda left, right: (setattr(n, "left", right), setattr(n, "right", left)))(n.left, n.right),
        )


def _call_changes(node: ast.Call) -> Iterator[tuple[str, Callable]]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method == "swapaxes":
        yield "transposed operand", lambda n: _become(n, n.func.value)
    if method in ("multiply", "divide"):
        yield "missing factor", lambda n: _become(n, n.args[0])
    if method in ("divide", "power", "matmul"):
        yield "exchanged arguments", lambda n: n.args.reverse()
    for position, keyword in enumerate(node.keywords):
        if keyword.arg == "axis" and isinstance(keyword.value, ast.Constant):
            wrong = 1 if keyword.value.value == 0 else 0
            yield f"wrong axis {wrong}", lambda n, p=position, w=wrong: setattr(n.keywords[p], "value", ast.Constant(w))


def _result_changes(node: ast.Return) -> Iterator[tuple[str, Callable]]:
    assert isinstance(node.value, ast.Tuple)
    real = [i for i, e in enumerate(node.value.elts) if not isinstance(e, ast.Constant | ast.Starred)]
    for one, other in zip(real, real[1:], strict=False):

        def swap(n, one=one, other=other):
            elements = n.value.elts
            elements[one], elements[other] = elements[other], elements[one]

        yield "swapped results", swap
    for i in real:

        def lose(n, i=i):
            n.value.elts[i] = ast.BinOp(n.value.elts[i], ast.Mult(), ast.Constant(0))

        yield f"lost gradient {i}", lose


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turns a node into another one in place."""
    node.__class__ = other.__class__  # type: ignore[assignment]
    node.__dict__.clear()
    node.__dict__.update(other.__dict__)

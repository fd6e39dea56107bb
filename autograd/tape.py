"""Questions to the tape: what did this result cost, how long is its longest chain, how far is it from that input?

A step is a Function that called a kernel. Reshapes, transpositions and slices only rename or move elements; they lie on
the tape but count as no step, unless `moves=True` is asked for.
"""

from collections import deque
from collections.abc import Iterator

from autograd.errors import AutogradError
from autograd.function import Function
from autograd.tensor import Tensor, inputs_before_results
from kernels.contract import CONTRACT, Cost


def functions(result: Tensor) -> list[Function]:
    """Every Function that result was computed by, each after the ones it needs."""
    return [t.node for t in inputs_before_results(result) if t.node is not None]


def calls(result: Tensor, backward: bool = False) -> list[tuple[str, tuple]]:
    """(kernel, its arguments, arrays in outline) for each call that led to result, in order.

    backward: then those of the derivative rules, as backward(retain_graph=True) ran them last."""
    nodes = functions(result)
    forward = [call for node in nodes for call in node.kernels.calls]
    return forward + [call for node in nodes if backward for call in node.kernels.backward_calls]


def cost(result: Tensor, backward: bool = False) -> Cost:
    """Flops and bytes of the kernels called by the Functions on the tape, from the contract's formulas. What was
    computed without recording (from inputs that need no gradient, or under no_grad) is not on the tape.

    backward: those of the derivative rules as well; see `calls`."""
    total = Cost(0, 0, 0)
    for name, arguments in calls(result, backward):
        total += CONTRACT[name].cost(*arguments)
    return total


def depth(result: Tensor, moves: bool = False) -> int:
    """The number of steps in the longest chain that ends in result: what no parallel machine can shorten."""
    deepest: dict[int, int] = {}
    for tensor in inputs_before_results(result):
        before = max((deepest.get(id(parent), 0) for parent in _inputs(tensor)), default=0)
        deepest[id(tensor)] = before + _length(tensor, moves)
    return deepest[id(result)]


def shortest_path(start: Tensor, end: Tensor, moves: bool = False) -> list[Function]:
    """The Functions on a shortest way from start to end; its length is the distance a signal has to travel."""
    # Breadth first from the end; ways of length 0 (moves) go to the front of the queue, so the first visit is shortest.
    queue: deque[tuple[Tensor, Tensor | None]] = deque([(end, None)])
    came_from: dict[int, Tensor | None] = {}
    while queue:
        tensor, successor = queue.popleft()
        if id(tensor) in came_from:
            continue
        came_from[id(tensor)] = successor
        if tensor is start:
            return list(_way(came_from, start, moves))
        for parent in _inputs(tensor):
            (queue.append if _length(tensor, moves) else queue.appendleft)((parent, tensor))
    raise AutogradError("the second Tensor was not computed from the first: there is no path")


def _way(came_from: dict[int, Tensor | None], start: Tensor, moves: bool) -> Iterator[Function]:
    tensor = came_from[id(start)]
    while tensor is not None:
        if tensor.node is not None and _length(tensor, moves):
            yield tensor.node
        tensor = came_from[id(tensor)]


def _inputs(tensor: Tensor) -> list[Tensor]:
    return [] if tensor.node is None else [t for t in tensor.node.inputs if t is not None]


def _length(tensor: Tensor, moves: bool) -> int:
    return int(tensor.node is not None and (moves or len(tensor.node.kernels.calls) > 0))

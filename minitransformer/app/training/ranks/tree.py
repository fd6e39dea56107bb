"""One binary tree over the slices of a batch, in whose order everything is added.

    ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))

Whoever has some neighbouring slices can add them as far as the tree allows, and hand on the sums that remain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Node:
    """A sum in the tree: of `width` slices, the number `first` and those after it."""

    first: int
    width: int
    sum: np.ndarray

    def part(self, where: slice) -> Node:
        return Node(self.first, self.width, self.sum[where])


def add_node(nodes: list[Node], node: Node) -> None:
    """One more sum, to the right of all others. Two neighbours become one where the tree joins them."""
    while nodes and nodes[-1].width == node.width and nodes[-1].first % (2 * node.width) == 0:
        left = nodes.pop()
        node = Node(left.first, 2 * left.width, np.add(left.sum, node.sum, out=left.sum))
    nodes.append(node)


def tree_sum(arrays: list[np.ndarray]) -> np.ndarray:
    """Of as many arrays as there are slices. The arrays are used up."""
    nodes: list[Node] = []
    for number, array in enumerate(arrays):
        add_node(nodes, Node(number, 1, array))
    return nodes[0].sum


def cuts(total: int, parts: int) -> list[int]:
    """Where to cut: part i goes from cuts[i] to cuts[i + 1]."""
    return [total * i // parts for i in range(parts + 1)]

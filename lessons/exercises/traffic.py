"""What can be asked of a CUDA kernel beside the right numbers: how it uses memory. Each function says what is wrong,
with the student's line, or nothing."""

from collections.abc import Mapping
from typing import Any


def scattered(counters: Mapping[str, Any], least: float = 0.9) -> str:
    """Lines of global memory that are touched without need."""
    if counters["coalescing"] >= least:
        return ""
    touched = counters["load_lines"] + counters["store_lines"]
    enough = counters["load_lines_ideal"] + counters["store_lines_ideal"]
    return (
        f"The numbers are right, but the warps touch {touched} lines of memory where {enough} would do; most are "
        f"wasted at {counters['uncoalesced_at']}: neighbouring threads should use neighbouring numbers."
    )


def conflicting(counters: Mapping[str, Any]) -> str:
    """Lanes of a warp that want different words of one bank of shared memory."""
    if not counters["bank_conflicts"]:
        return ""
    return (
        f"The numbers are right, but there are {counters['bank_conflicts']} bank conflicts, most of them at "
        f"{counters['conflicts_at']}: lanes that are 32 numbers apart in shared memory wait for each other."
    )


def greedy(counters: Mapping[str, Any], most: int) -> str:
    """More numbers fetched from global memory than needed."""
    if counters["global_loads"] <= most:
        return ""
    return (
        f"The numbers are right, but the threads make {counters['global_loads']:,} loads from global memory where "
        f"{most:,} would do: what several threads need is loaded once, into shared memory."
    )

"""Cutting work into parts that follow from sizes alone, so that the number of threads changes no bit."""

from numba.extending import register_jitable


@register_jitable
def blocks(size, block):
    """How many nearly equal parts of at most `block` make up `size`."""
    return (size + block - 1) // block


@register_jitable
def part(number, parts, size, step):
    """Where one of so many parts of a size begins and ends: at multiples of a step."""
    steps = blocks(size, step)
    return number * steps // parts * step, min(size, (number + 1) * steps // parts * step)

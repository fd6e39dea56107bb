"""A wrong answer as a class gets to see it: the program without comments. They were written for the right answer, so
that they lie here, or give the mistake away."""

from __future__ import annotations

import io
import re
import tokenize

from lessons.exercises.exercise import Exercise
from lessons.exercises.feedback import Wrong

# texts in quotes are matched first: `//` in one of them begins no comment
_CUDA = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def shown(exercise: Exercise, wrong: Wrong) -> str:
    source = wrong.source(exercise.solution).strip("\n") + "\n"
    return without_cuda_comments(source) if exercise.kind == "cuda" else without_comments(source)


def without_comments(source: str) -> str:
    """Python without comments; docstrings stay. Lines that held nothing else are left out."""
    lines = source.splitlines()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):  # brackets that never close: a mistake to show, too
        return source
    for token in reversed(tokens):  # from the end: a line that goes moves none that is still to be looked at
        if token.type == tokenize.COMMENT:
            row, column = token.start
            rest = lines[row - 1][:column].rstrip()
            lines[row - 1 : row] = [rest] if rest else []
    return "\n".join(lines) + "\n"


def without_cuda_comments(source: str) -> str:
    bare = _CUDA.sub(lambda found: found[0] if found[0][0] == '"' else "\n" * found[0].count("\n"), source)
    both = zip(bare.splitlines(), source.splitlines(), strict=True)
    return "\n".join(line.rstrip() for line, was in both if line.strip() or not was.strip()) + "\n"

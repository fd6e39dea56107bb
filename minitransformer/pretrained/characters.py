"""A tokenizer of single signs, for models whose vocabulary is an alphabet."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minitransformer.errors import UserError, excerpt
from minitransformer.pretrained.tokenizer import Tokenizer


class Characters(Tokenizer):
    """letters: sign → id. written: the same for what the model writes, where that is another alphabet."""

    def __init__(
        self,
        letters: Mapping[str, int],
        special: Mapping[str, int],
        *,
        written: Mapping[str, int] | None = None,
        **around: Any,
    ):
        super().__init__([*letters.values(), *(written or {}).values()], special, **around)
        self.letters = dict(letters)
        self._signs = {i: sign for sign, i in (written or letters).items()} | {i: name for name, i in special.items()}

    def _encode_plain(self, text: str) -> list[int]:
        for sign in text:
            if sign not in self.letters:
                known = "".join(sorted(self.letters))
                raise UserError(f"{excerpt(sign)} is not in this model's alphabet: {known}")
        return [self.letters[sign] for sign in text]

    def _texts(self, ids: Iterable[int]) -> Iterator[str]:
        return (self._signs.get(i, "") for i in ids)

"""A batch of texts in the making: asks the model for the next word's scores, and takes the word that was chosen.

Greedy search, sampling and beam search all work on a Session and know nothing of models or caches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import Tensor, no_grad
from minitransformer.decoding.cache import Cache, rows_of
from minitransformer.decoding.one_word import read_word
from minitransformer.layers import rows_at
from minitransformer.models import LanguageModel, Translator
from minitransformer.models.inputs import row_lengths, token_ids


class Session:
    """The rows being written.

    tokens   (B, capacity) the words so far: a prompt and what follows (language model), or <sos> and the translation
    lengths  (B) how many of them there are"""

    def __init__(
        self,
        model: LanguageModel | Translator,
        ids: Any,
        lengths: Any = None,
        *,
        max_new_tokens: int | None = None,
        sos: int | Sequence[int] = 0,
        use_cache: bool = True,
    ):
        """ids (B, T): prompts to continue, or sentences to translate, padded on the right; lengths (B): of these"""
        self.model, self.training = model, model.training
        self.memory: Tensor | None = None
        self.memory_lengths: np.ndarray | None = None
        self.vocabulary = model.head.weight.shape[0]
        limit = model.config.max_len
        if isinstance(model, Translator):
            with self:
                self.memory = model.encode(ids, lengths)
            self.memory_lengths = None if lengths is None else _host(lengths)
            prompt = np.tile(np.atleast_1d(sos), (self.memory.shape[0], 1))
            token_ids("sos", prompt, self.vocabulary)
            start = np.full(len(prompt), prompt.shape[1])
        elif isinstance(model, LanguageModel):
            if not model.base.causal:
                raise ValueError("this model fills in hidden words (causal=False): it cannot tell what comes next")
            prompt = _host(token_ids("ids", ids, self.vocabulary, limit))
            given = row_lengths("lengths", lengths, *prompt.shape)
            start = np.full(len(prompt), prompt.shape[1]) if given is None else _host(given)
        else:
            raise TypeError(f"only LanguageModel and Translator write text, not {type(model).__name__}")
        longest = int(start.max())
        self.room = limit - longest if max_new_tokens is None else max_new_tokens
        if self.room < 1:
            raise ValueError(
                f"max_new_tokens must be at least 1, not {self.room}"
                if max_new_tokens is not None
                else f"the prompt fills all max_len = {limit} positions: nothing can follow"
            )
        if longest + self.room > limit:
            raise ValueError(
                f"max_new_tokens = {self.room} after {longest} words exceeds the model's max_len = {limit}; "
                f"ask for at most {limit - longest}"
            )
        self.tokens = np.zeros((len(prompt), longest + self.room), dtype=np.int64)
        self.tokens[:, :longest] = prompt[:, :longest]
        self.lengths, self.first_new = start.astype(np.int64), start.astype(np.int64)
        layers = (model.decoder if isinstance(model, Translator) else model.base.encoder).layers
        self.cache = Cache(len(layers), len(prompt), longest + self.room) if use_cache else None
        self._fresh = True

    # Nothing is recorded and nothing dropped while the model works, yet between two words the caller may do
    # whatever they like: so both are set for each step alone.
    def __enter__(self) -> None:
        self._no_grad = no_grad()
        self._no_grad.__enter__()
        self.training = self.model.training
        if self.training:
            self.model.eval()

    def __exit__(self, *exception: Any) -> None:
        if self.training:
            self.model.train()
        self._no_grad.__exit__(*exception)

    def __len__(self) -> int:
        return len(self.lengths)

    def next_logits(self) -> np.ndarray:
        """Scores of every word as the next one, float64.   → (B, V)"""
        return self.next_scores().astype(np.float64)

    def next_scores(self) -> np.ndarray:
        """The same in the model's own precision, which is enough for who asks only for the largest."""
        with self:
            if self.cache is None or self._fresh:
                read = self.tokens[:, : self.lengths.max()]
                hidden = rows_at(self._hidden(read), self.lengths - 1)[:, 0]
            else:
                words = self.tokens[np.arange(len(self)), self.lengths - 1]
                if isinstance(self.model, LanguageModel):
                    hidden = Tensor.holding(read_word(self.model, words, self.cache), self.model.backend)
                else:
                    hidden = self._hidden(words[:, None])[:, 0]
            self._fresh = False
            if self.cache is not None:
                self.cache.lengths = self.lengths.copy()  # padding that was read along does not count
            result = self.model.head(hidden)
            scores = result.backend.to_numpy(result.array)  # nobody else has it: the caller may write to it
        if np.isnan(scores.max()):  # which is one if any is
            raise ValueError("the model's scores are not numbers (NaN): its weights are damaged or have diverged")
        return scores

    def _hidden(self, ids: np.ndarray) -> Tensor:
        if isinstance(self.model, LanguageModel):
            return self.model.base(ids, cache=self.cache)
        assert self.memory is not None
        return self.model.decode(ids, self.memory, self.memory_lengths, cache=self.cache)

    def append(self, words: Sequence[int] | np.ndarray) -> None:
        """Each row's next word.   words (B)"""
        self.tokens[np.arange(len(self)), self.lengths] = words
        self.lengths += 1

    def select(self, rows: Sequence[int] | np.ndarray) -> None:
        """Row i becomes what row rows[i] was."""
        rows = np.asarray(rows, dtype=np.int64)
        self.tokens, self.lengths, self.first_new = self.tokens[rows], self.lengths[rows], self.first_new[rows]
        if self.memory is not None:
            self.memory = rows_of(self.memory, rows)
        if self.memory_lengths is not None:
            self.memory_lengths = self.memory_lengths[rows]
        if self.cache is not None:
            self.cache.select(rows)

    def history(self, row: int) -> list[int]:
        """All words of a row, the prompt's too."""
        return self.tokens[row, : self.lengths[row]].tolist()

    def new_words(self, row: int) -> list[int]:
        return self.tokens[row, self.first_new[row] : self.lengths[row]].tolist()


def _host(array: Any) -> np.ndarray:
    """The integers in host memory."""
    array = array.numpy() if isinstance(array, Tensor) else array
    return np.asarray(array.get() if hasattr(array, "get") else array, dtype=np.int64)

"""BERT reads, hides or answers something else than it should."""

from lessons.harness.engine import Engine
from minitransformer import Bert
from minitransformer.app.data.batches import bert as batches


def segments_off(engine: Engine) -> None:
    """both sentences get the first segment's vector"""
    engine.replace(Bert, "hidden", lambda f: lambda self, ids, segments, lengths=None: f(self, ids, 0 * ids, lengths))


def always_mask(engine: Engine) -> None:
    """every chosen word becomes [MASK]"""
    engine.replace(batches, "MASKED", lambda _: 1.0)


def hide_a_third(engine: Engine) -> None:
    """30 % of the words are chosen instead of 15 %"""
    engine.replace(batches, "CHOSEN", lambda _: 0.3)


def cls_misread(engine: Engine) -> None:
    """the next-sentence head reads the first word instead of [CLS]"""

    def forward(self, ids, segments, lengths=None):
        hidden = self.hidden(ids, segments, lengths)
        return self.word_head(hidden), self.next_head(hidden[:, 1])

    engine.replace(Bert, "forward", lambda _: forward)

"""Texts of different lengths, brought together in arrays."""

from minitransformer.app.data.batches.bert import BertBatch, BertBatches, bert_inputs, split_sentences
from minitransformer.app.data.batches.masked import MaskedBatch, MaskedBatches
from minitransformer.app.data.batches.ordering import batch_order, padding_fraction
from minitransformer.app.data.batches.padded import (
    ClassifierBatch,
    ClassifierBatches,
    LanguageModelBatch,
    LanguageModelBatches,
    TranslationBatch,
    TranslationBatches,
)

__all__ = [
    "BertBatch", "BertBatches", "ClassifierBatch", "ClassifierBatches", "LanguageModelBatch", "LanguageModelBatches",
    "MaskedBatch", "MaskedBatches", "TranslationBatch", "TranslationBatches", "batch_order", "bert_inputs",
    "padding_fraction", "split_sentences",
]  # fmt: skip

"""Text in, batches out: tokenizers, readers of text files, and batches formed by length.

Shapes in this package: B batch, T positions, S source positions, V vocabulary.
Nothing here loads sentencepiece until a sentencepiece model is trained or read.
"""

from .bag_batches import BagBatch, BagBatches
from .batches import (
    ClassifierBatch,
    ClassifierBatches,
    LanguageModelBatch,
    LanguageModelBatches,
    TranslationBatch,
    TranslationBatches,
)
from .bert_batches import BertBatch, BertBatches, bert_inputs, split_sentences
from .documents import read_documents, read_pairs, read_sections
from .errors import DataError
from .lab import LabTokenizer
from .labelled import LabelledDocuments, read_labelled
from .masked_batches import MaskedBatch, MaskedBatches
from .ordering import batch_order, padding_fraction
from .pieces import PieceTokenizer
from .tokenizer import BASE_SPECIALS, BERT_SPECIALS, Tokenizer, load_tokenizer
from .words import WordTokenizer

__all__ = [
    "BASE_SPECIALS",
    "BERT_SPECIALS",
    "BagBatch",
    "BagBatches",
    "BertBatch",
    "BertBatches",
    "ClassifierBatch",
    "ClassifierBatches",
    "DataError",
    "LabTokenizer",
    "LabelledDocuments",
    "LanguageModelBatch",
    "LanguageModelBatches",
    "MaskedBatch",
    "MaskedBatches",
    "PieceTokenizer",
    "Tokenizer",
    "TranslationBatch",
    "TranslationBatches",
    "WordTokenizer",
    "batch_order",
    "bert_inputs",
    "load_tokenizer",
    "padding_fraction",
    "read_documents",
    "read_labelled",
    "read_pairs",
    "read_sections",
    "split_sentences",
]

"""Text in, batches out: tokenizers, readers of text files, and batches formed by length.

Shapes in this package: B batch, T positions, S source positions, V vocabulary.
Nothing here loads sentencepiece until a sentencepiece model is trained or read.
"""

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
from minitransformer.app.data.readers.documents import read_documents, read_pairs, read_sections
from minitransformer.app.data.readers.labelled import LabelledDocuments, read_labelled
from minitransformer.app.data.tokenizers.lab import LabTokenizer
from minitransformer.app.data.tokenizers.pieces import PieceTokenizer
from minitransformer.app.data.tokenizers.tokenizer import BASE_SPECIALS, BERT_SPECIALS, Tokenizer, load_tokenizer
from minitransformer.app.data.tokenizers.words import WordTokenizer
from minitransformer.errors import DataError

__all__ = [
    "BASE_SPECIALS",
    "BERT_SPECIALS",
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

"""Text in, batches out: tokenizers, readers of text files, and batches formed by length.

Shapes in this package: B batch, T positions, S source positions, V vocabulary.
Nothing here loads sentencepiece until a sentencepiece model is trained or read.
"""

from minitransformer.app.data.batches import (
    BertBatch,
    BertBatches,
    ClassifierBatch,
    ClassifierBatches,
    LanguageModelBatch,
    LanguageModelBatches,
    MaskedBatch,
    MaskedBatches,
    TranslationBatch,
    TranslationBatches,
    batch_order,
    bert_inputs,
    padding_fraction,
    split_sentences,
)
from minitransformer.app.data.readers import (
    LabelledDocuments,
    read_documents,
    read_labelled,
    read_pairs,
    read_sections,
)
from minitransformer.app.data.tokenizers import (
    BASE_SPECIALS,
    BERT_SPECIALS,
    LabTokenizer,
    PieceTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)
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

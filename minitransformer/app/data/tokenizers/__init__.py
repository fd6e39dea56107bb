"""Text to ids and back."""

from minitransformer.app.data.tokenizers.lab import LabTokenizer
from minitransformer.app.data.tokenizers.pieces import PieceTokenizer
from minitransformer.app.data.tokenizers.tokenizer import BASE_SPECIALS, BERT_SPECIALS, Tokenizer, load_tokenizer
from minitransformer.app.data.tokenizers.words import WordTokenizer

__all__ = [
    "BASE_SPECIALS", "BERT_SPECIALS", "LabTokenizer", "PieceTokenizer", "Tokenizer", "WordTokenizer", "load_tokenizer",
]  # fmt: skip

"""What others trained: their files, their tokenizers, their models.

from minitransformer.pretrained import load
model, tokenizer = load("minilm")
"""

from minitransformer.pretrained.loading import Pretrained, load, save_pretrained

__all__ = ["Pretrained", "load", "save_pretrained"]

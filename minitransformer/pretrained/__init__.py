"""What others trained: their files, their tokenizers, their models."""

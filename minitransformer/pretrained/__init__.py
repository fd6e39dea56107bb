"""Models that others trained, and their tokenizers."""

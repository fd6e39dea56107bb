"""Texts of different lengths, brought together in arrays."""

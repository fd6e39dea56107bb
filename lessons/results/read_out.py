"""Logistic regression: what a straight cut through vectors can tell."""

from __future__ import annotations

import numpy as np


def read_out(x: np.ndarray, labels: np.ndarray, held_back: float) -> tuple[np.ndarray, float]:
    """By Newton's method.   x (n, C), labels (n) of 0 and 1, held_back: L2 → weights (C), bias"""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    weights, penalty = np.zeros(x.shape[1]), np.full(x.shape[1], held_back * len(x))
    penalty[-1] = 1e-9  # the bias is free
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (p - labels) + penalty * weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty), slope)
        weights -= step
        if np.abs(step).max() < 1e-4:  # the next one would be about as small as its square
            break
    return weights[:-1], weights[-1]


def spread_of(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What to subtract and what to divide by, so that every column has mean 0 and spread 1 over these, and vectors
    are about 1 long.   known (n, C) → (C), (C)"""
    return known.mean(axis=0), np.maximum(known.std(axis=0), 1e-6) * np.sqrt(known.shape[1])  # less is rounding

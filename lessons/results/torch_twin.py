"""The labs' language model in PyTorch, of PyTorch's own layers. Only the initial weights come from our engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LabModel(nn.Module):
    """The parts carry our engine's names, so that loading the weights strictly shows that they map one to one."""

    def __init__(self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, max_len: int):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout=0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.base = nn.ModuleDict({"embedding": nn.Embedding(vocab_size, d_model), "encoder": encoder})
        self.head = nn.Linear(d_model, vocab_size)
        self.scale = math.sqrt(d_model)
        self.register_buffer("positions", sinusoids(max_len, d_model), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        x = self.base["embedding"](ids) * self.scale + self.positions[:T]
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        return self.head(self.base["encoder"](x, mask=mask, is_causal=True))


def sinusoids(length: int, width: int) -> Tensor:
    """sin(t / 10000^(2i/C)) in column 2i, the cosine in column 2i + 1.   (length, C)"""
    t, column = torch.arange(length, dtype=torch.float64)[:, None], torch.arange(0, width, 2, dtype=torch.float64)
    angle = t / 10000 ** (column / width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


class Twin:
    """One training run: Adam, clipping, and the mean cross-entropy over the targets that are not padding.

    double_norm  clip by a norm that is summed in double precision; PyTorch's own sums in float32"""

    def __init__(
        self, sizes: Mapping[str, int], weights: Mapping[str, np.ndarray], lr: float, clip: float, double_norm: bool
    ):
        self.model, self.clip = LabModel(**sizes), clip
        self.clip_gradients = clip_by_double_norm if double_norm else nn.utils.clip_grad_norm_
        self.model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=True)

    def step(self, batch: Any) -> tuple[float, float]:
        """The loss, and the norm of the gradient before clipping."""
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(torch.from_numpy(batch.ids))
        targets = torch.from_numpy(batch.targets)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=batch.ignore)
        loss.backward()
        norm = self.clip_gradients(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item(), norm.item()

    def weights(self) -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in self.model.state_dict().items()}


def clip_by_double_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """clip_grad_norm_ to the letter, but for the precision of the sum."""
    gradients = [parameter.grad for parameter in parameters]
    norm = torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]).norm()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


def use_threads(count: int) -> None:
    torch.set_num_threads(count)

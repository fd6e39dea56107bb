"""What `minitransformer generate` does, with PyTorch: read a trained model of the same size from a file, write some
words, end. It imports nothing of ours, as whoever uses PyTorch would not.

python torch_first_words.py FILE            writes 20 words with the model in FILE
python torch_first_words.py FILE --make     puts one there"""

import sys

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, HIDDEN, LENGTH = 255, 64, 4, 2, 128, 64


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.encoder(x, mask=mask, is_causal=True))


if __name__ == "__main__":
    model = LanguageModel().eval()
    if "--make" in sys.argv:
        torch.save(model.state_dict(), sys.argv[1])
        sys.exit()
    model.load_state_dict(torch.load(sys.argv[1], weights_only=True))
    ids = torch.zeros((1, 1), dtype=torch.int64)
    with torch.inference_mode():
        for _ in range(20):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
    print(" ".join(map(str, ids[0].tolist())))

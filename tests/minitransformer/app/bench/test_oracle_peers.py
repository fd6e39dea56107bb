"""The peers of the benchmark compute what we compute: a race against somebody with less work would prove nothing."""

from dataclasses import replace

import numpy as np
import pytest

from autograd import no_grad
from minitransformer.app.bench import bench_inputs
from minitransformer.app.bench.cases import MINILM
from minitransformer.models import Bert

torch = pytest.importorskip("torch", reason="PyTorch is a peer here: make test-oracles installs it")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is a peer here: make test-oracles installs it")
pytest.importorskip("onnx", reason="ONNX Runtime reads its graphs: make test-oracles installs it")
pytestmark = pytest.mark.oracle

# Hidden states are normed, so of order 1 to 4. Some 2,000 terms are added between two norms, in another order by each
# side: √2,000 · 2⁻²⁴ · 4 = 1.1e-5 is what rounding may do, 3e-6 is what was seen at MiniLM's size.
CLOSE = 5e-6


@pytest.fixture(scope="module")
def bert():
    return Bert(replace(MINILM, vocab_size=500, n_layers=2, max_len=64))


def texts(rows, length):
    ids = bench_inputs.words(rows, length, 500)
    return ids, (np.arange(length) >= length // 2).astype(np.int64) * np.ones_like(ids)


def ours(bert, ids, segments):
    with no_grad():
        return bert.hidden(ids, segments).numpy()


@pytest.mark.parametrize("rows, length", [(1, 1), (1, 16), (3, 33), (2, 64)])
def test_onnx_runtime_computes_the_same(bert, rows, length):
    from minitransformer.app.bench import onnx_peer

    ids, segments = texts(rows, length)
    theirs = onnx_peer.session(bert, threads=1)(ids, segments)
    np.testing.assert_allclose(theirs, ours(bert, ids, segments), rtol=0, atol=CLOSE)


def test_a_bert_of_another_kind_is_refused_by_the_graph():
    from minitransformer.app.bench import onnx_peer

    with pytest.raises(ValueError, match="norms after the sublayers"):
        onnx_peer.encoder_graph(Bert(replace(MINILM, vocab_size=50, n_layers=1, norm_first=True)))


def test_pytorch_computes_the_same(bert):
    from minitransformer.app.bench import torch_peer

    parts = {"attention.packed.": "self_attn.in_proj_", "attention.out.": "self_attn.out_proj.", "one.": "linear1.",
             "two.": "linear2.", "norms.0.": "norm1.", "norms.1.": "norm2."}  # fmt: skip
    names = {"words.weight": "embedding.weight", "places": "embedding.positions.weight",
             "segments.weight": "segments.weight", "norm.weight": "norm.weight", "norm.bias": "norm.bias"}  # fmt: skip
    for i in range(bert.config.n_layers):
        for theirs, mine in parts.items():
            names |= {f"blocks.{i}.{theirs}{kind}": f"encoder.layers.{i}.{mine}{kind}" for kind in ("weight", "bias")}
    peer, state = torch_peer.Bert(bert.config).eval(), bert.state_dict()
    peer.load_state_dict({name: torch.from_numpy(np.array(state[mine])) for name, mine in names.items()})
    ids, segments = texts(3, 33)
    with torch.inference_mode():
        theirs = peer(torch.from_numpy(ids), torch.from_numpy(segments)).numpy()
    np.testing.assert_allclose(theirs, ours(bert, ids, segments), rtol=0, atol=CLOSE)

"""BERT's encoder as a graph for ONNX Runtime, made of our weights: the peer that people pick to run an encoder.

The operators of the domain com.microsoft are what ONNX Runtime's own optimizer makes of an exported model: attention,
GELU and the norms with what stands next to them. The graph is written with them at once, so that neither an exporter
nor the luck of its pattern matching decides what we are measured against."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import kernels
from minitransformer.app.bench import bench_inputs
from minitransformer.app.bench.cases import MINILM
from minitransformer.models import Bert

Work = Callable[[], Any]
FUSED = "com.microsoft"


class Graph:
    """Nodes and weights of a graph in the making."""

    def __init__(self, state: dict[str, np.ndarray]):
        self.state = state
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}

    def weight(self, name: str, transposed: bool = False) -> str:
        array = np.ascontiguousarray(self.state[name].T if transposed else self.state[name])
        self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def node(self, operator: str, inputs: list[str], output: str, **settings: Any) -> str:
        domain = "" if operator == "MatMul" else FUSED
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **settings))
        return output

    def linear(self, x: str, layer: str) -> str:
        """Without its bias, which the operator after it adds."""
        return self.node("MatMul", [x, self.weight(f"{layer}.weight", transposed=True)], f"{layer}.product")


def encoder_graph(bert: Bert) -> Any:
    """ids, segments (B, T) int32 → the hidden states (B, T, C) that bert.hidden gives"""
    config = bert.config
    if config.norm_first or config.norm != "layer" or config.activation != "gelu" or config.positions != "learned":
        raise ValueError("only BERT as it was published is known here: norms after the sublayers, GELU, learned places")
    graph = Graph(bert.state_dict())
    tables = ["embedding.weight", "embedding.positions.weight", "segments.weight", "norm.weight", "norm.bias"]
    eps = {"epsilon": config.norm_eps}
    x = "embedded"
    inputs = ["ids", "segments", *(graph.weight(name) for name in tables)]
    lengths = "lengths"  # this operator has a second result, which nobody reads
    graph.nodes.append(helper.make_node("EmbedLayerNormalization", inputs, [x, lengths], domain=FUSED, **eps))
    for i in range(config.n_layers):
        layer = f"encoder.layers.{i}"
        attention, first, second = f"{layer}.self_attn", f"{layer}.linear1", f"{layer}.linear2"
        packed = [graph.weight(f"{attention}.in_proj_weight", True), graph.weight(f"{attention}.in_proj_bias")]
        heads = graph.node("Attention", [x, *packed], f"{layer}.heads", num_heads=config.n_heads)
        out = f"{attention}.out_proj"
        x = _residual(graph, graph.linear(heads, out), x, f"{layer}.norm1", f"{out}.bias", eps)
        hidden = graph.node("BiasGelu", [graph.linear(x, first), graph.weight(f"{first}.bias")], f"{layer}.hidden")
        x = _residual(graph, graph.linear(hidden, second), x, f"{layer}.norm2", f"{second}.bias", eps)
    texts = [helper.make_tensor_value_info(name, TensorProto.INT32, ["B", "T"]) for name in ("ids", "segments")]
    result = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["B", "T", config.d_model])
    made = helper.make_graph(graph.nodes, "encoder", texts, [result], list(graph.weights.values()))
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(made, opset_imports=versions, ir_version=10)


def _residual(graph: Graph, y: str, x: str, norm: str, bias: str, eps: dict[str, float]) -> str:
    """norm(x + y + bias)"""
    names = [graph.weight(f"{norm}.weight"), graph.weight(f"{norm}.bias"), graph.weight(bias)]
    return graph.node("SkipLayerNormalization", [y, x, *names], f"{norm}.result", **eps)


def session(bert: Bert, threads: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function of ids and segments (B, T)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = encoder_graph(bert)
    onnx.checker.check_model(model)
    runner = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(ids: np.ndarray, segments: np.ndarray) -> np.ndarray:
        return runner.run(None, {"ids": ids.astype(np.int32), "segments": segments.astype(np.int32)})[0]

    return run


def encoder(sizes: dict, _data: str | None, threads: int) -> Work:
    ids = bench_inputs.words(sizes["B"], sizes["T"], MINILM.vocab_size or 0)
    with kernels.use("numpy"):  # no Numba in a peer's process
        run = session(Bert(MINILM), threads)
    return lambda: run(ids, np.zeros_like(ids))

"""An example for every public name of kernels, autograd and minitransformer. The book runs each and prints what it
shows; a test fails when a public name has none, and when one no longer runs.

Each starts with the names of PRELUDE. The value of a line that is only an expression is shown."""

PRELUDE = """
import numpy as np
import kernels, autograd, minitransformer
import autograd.functional as F
from autograd import *
from minitransformer import *
from minitransformer.layers import *
from minitransformer.module import *
from minitransformer.optim import *
from minitransformer.decoding import *

autograd.manual_seed(0)
np.set_printoptions(precision=3, suppress=True)
x = Tensor([[1.0, 2.0, 4.0], [0.0, -1.0, 1.0]], requires_grad=True)  # (2, 3)
sizes = dict(d_model=8, n_heads=2, d_ff=16, max_len=12)
model = LanguageModel(vocab_size=10, n_layers=1, **sizes)
"""

KERNELS = {
    "Backend": 'kernels.Backend is type(kernels.backend("numpy"))\nkernels.backend("numpy").name',
    "BackendError": 'try: kernels.use("abacus")\nexcept kernels.BackendError as error: print(error)',
    "Dropout": "kernels.Dropout(p=0.1, seed=3)",
    "KernelError": "try: kernels.current().softmax(np.zeros(3))\nexcept kernels.KernelError as error: print(error)",
    "Mask": "kernels.Mask(key_lengths=np.array([5, 3]), is_causal=True)",
    "available": '"numpy" in kernels.available()',
    "backend": 'kernels.backend("numpy").softmax(np.array([[0.0, 1.0]]))',
    "backend_of": "kernels.backend_of(np.zeros(3)).name",
    "current": "kernels.current().name",
    "reasons": 'kernels.reasons()["numpy"] is None  # nothing speaks against it',
    "use": 'with kernels.use("numpy"):\n    print(kernels.current().name)',
}

AUTOGRAD = {
    "AutogradError": "try: (x * 2).backward()\nexcept AutogradError as error: print(error)",
    "Function": '''class Cube(Function):
    """y = x³.   dy ↦ 3 x² dy"""
    def forward(self, x):
        self.save(x)
        return x * x * x
    def backward(self, dy):
        (x,) = self.saved
        return 3 * dy * x * x

Cube.apply(x).sum().backward()
x.grad''',
    "GradcheckError": """class Wrong(Function):
    def forward(self, x):
        self.save(x)
        return x * x
    def backward(self, dy):
        return dy * self.saved[0]  # the 2 is missing

try: gradcheck(Wrong.apply, Tensor([1.0, 2.0], requires_grad=True, dtype="float64"))
except GradcheckError as error: print(str(error).splitlines()[0])""",
    "MissingRule": """class Half(Function):
    def forward(self, x):
        return x / 2

try: Half.apply(x).sum().backward()
except MissingRule as error: print(error)""",
    "Tensor": "t = Tensor([1.0, 2.0], requires_grad=True)\n(t * t).sum().backward()\nt.grad  # 2t",
    "draw": 'draw((x * x).sum(), "tape.svg")',
    "functional": "autograd.functional is F\nF.softmax(x).sum(axis=1)",
    "gradcheck": "gradcheck(F.softmax, Tensor(np.random.randn(2, 3), requires_grad=True))  # raises if it is wrong",
    "manual_seed": "manual_seed(1)\na = randn(3)\nmanual_seed(1)\n(randn(3).numpy() == a.numpy()).all()",
    "no_grad": "with no_grad():\n    y = x * 2\ny.requires_grad",
    "ones": "ones(2, 3).sum().item()",
    "randn": "randn(2, 3).shape",
    "is_grad_enabled": "with no_grad():\n    inside = is_grad_enabled()\ninside, is_grad_enabled()",
    "recompute": "y = recompute(F.gelu, x)  # what gelu computes inside is not kept, but computed again in backward\ny.shape",
    "zeros": "zeros(2, 3).shape",
}

TENSOR = {
    "T": "x.T.shape",
    "abs": "x.abs()",
    "argmax": "x.argmax(axis=1)",
    "array": "type(x.array)  # the backend's own array",
    "astype": 'x.astype("float32").dtype',
    "backend": "x.backend.name",
    "backward": "(x * x).sum().backward()\nx.grad",
    "clamp": "x.clamp(min=0, max=2)",
    "clone": "x.clone() is x",
    "data": "x.data",
    "detach": "x.detach().requires_grad",
    "device": "x.device",
    "dim": "x.dim()",
    "dtype": "x.dtype",
    "exp": "x.exp()",
    "expand": "Tensor([[1.0], [2.0]]).expand(2, 3)",
    "flatten": "x.flatten().shape",
    "grad": "x.sum().backward()\nx.grad",
    "is_leaf": "x.is_leaf, (x * 2).is_leaf",
    "item": "x.sum().item()",
    "log": "x.exp().log()",
    "log_softmax": "x.log_softmax()",
    "masked_fill": "x.masked_fill(x.numpy() < 0, 9.0)",
    "max": "x.max(axis=1)",
    "mean": "x.mean(dim=1, keepdim=True)",
    "min": "x.min().item()",
    "ndim": "x.ndim",
    "node": "(x * 2).node  # the Function that made it",
    "numel": "x.numel()",
    "numpy": "x.numpy()",
    "permute": "x.permute(1, 0).shape",
    "relu": "x.relu()",
    "requires_grad": "x.requires_grad",
    "reshape": "x.reshape(3, 2)",
    "shape": "x.shape",
    "sigmoid": "x.sigmoid()",
    "size": "x.size",
    "softmax": "x.softmax(dim=1)",
    "sqrt": "(x * x).sqrt()",
    "squeeze": "zeros(2, 1, 3).squeeze().shape",
    "std": "x.std(axis=1)",
    "sum": "x.sum(axis=0)",
    "swapaxes": "x.swapaxes(0, 1).shape",
    "tanh": "x.tanh()",
    "to": 'x.to("numpy").device',
    "tolist": "x.tolist()",
    "transpose": "x.transpose(0, 1).shape",
    "unsqueeze": "x.unsqueeze(0).shape",
    "var": "x.var(axis=1)",
    "view": "x.view(3, 2).shape",
}

FUNCTIONAL = {
    "absolute": "F.absolute(x)",
    "add": "F.add(x, 1)  # x + 1",
    "astype": 'F.astype(x, "float32").dtype',
    "attention": "q, k, v = (randn(1, 2, 5, 4) for _ in range(3))  # (B, H, T, D)\nF.attention(q, k, v, is_causal=True).shape",
    "cat": "F.cat([x, x], dim=1).shape",
    "concatenate": "F.concatenate([x, x], axis=0).shape",
    "cross_entropy": "F.cross_entropy(x, [2, 0]).item()  # x as scores of three classes",
    "divide": "F.divide(x, 2)",
    "dropout": "F.dropout(ones(8), p=0.5, seed=3)",
    "embedding": "table = randn(10, 4)\nF.embedding(table, [3, 1, 3]).shape",
    "exp": "F.exp(x)",
    "expand": "F.expand(Tensor([[1.0], [2.0]]), (2, 3))",
    "feed_forward": 'F.feed_forward(x, randn(8, 3), zeros(8), randn(5, 8), zeros(5), activation="gelu").shape',
    "gated_feed_forward": "F.gated_feed_forward(x, randn(8, 3), randn(8, 3), randn(5, 8)).shape  # SwiGLU",
    "gelu": "F.gelu(x)",
    "heads": "F.heads(randn(1, 4, 6), 0, 3, 2).shape  # 3 heads of 2 columns each",
    "index": "F.index(x, (slice(None), 0))  # x[:, 0]",
    "joined_heads": "F.joined_heads(randn(1, 3, 4, 2)).shape",
    "layer_norm": "F.layer_norm(x, ones(3), zeros(3)).mean(axis=1)",
    "linear": "F.linear(x, randn(5, 3), zeros(5)).shape",
    "linear_cross_entropy": "F.linear_cross_entropy(x, randn(10, 3), zeros(10), [7, 2]).shape  # the logits are never whole",
    "log": "F.log(F.exp(x))",
    "log_softmax": "F.log_softmax(x)",
    "matmul": "F.matmul(x, x.T)  # x @ x.T",
    "max": "F.max(x, axis=1)",
    "mean": "F.mean(x).item()",
    "mse_loss": "F.mse_loss(x, zeros(2, 3)).item()",
    "multiply": "F.multiply(x, x)",
    "power": "F.power(x, 2)",
    "quantised_gated_feed_forward": (
        'F.quantised_gated_feed_forward(ones(2, 32), *[np.zeros((32, 34), np.uint8)] * 3, "Q8_0").shape'
    ),
    "quantised_linear": (
        'F.quantised_linear(ones(2, 32), np.zeros((5, 20), np.uint8), "Q4_1").shape  # 20 bytes for 32 weights'
    ),
    "relu": "F.relu(x)",
    "reshape": "F.reshape(x, (3, -1)).shape",
    "rms_norm": "(F.rms_norm(x, ones(3)) ** 2).mean(axis=1)",
    "rotary": "F.rotary(randn(1, 2, 5, 4), np.arange(5)[None]).shape",
    "scaled_dot_product_attention": "q, k, v = (randn(1, 2, 5, 4) for _ in range(3))\nF.scaled_dot_product_attention(q, k, v, is_causal=True).shape",
    "sigmoid": "F.sigmoid(x)",
    "silu": "F.silu(x)",
    "softmax": "F.softmax(x)",
    "split": "[part.shape for part in F.split(x, 3, axis=1)]",
    "sqrt": "F.sqrt(x * x)",
    "stack": "F.stack([x, x]).shape",
    "subtract": "F.subtract(x, 1)",
    "sum": "F.sum(x, axis=0)",
    "swapaxes": "F.swapaxes(x, 0, 1).shape",
    "tanh": "F.tanh(x)",
    "transpose": "F.transpose(x, (1, 0)).shape",
    "var": "F.var(x, axis=1)",
    "where": "F.where(x.numpy() > 0, x, 0.0)",
}

MODELS = {
    "Bert": "bert = Bert(vocab_size=10, n_layers=1, **sizes)\nwords, follows = bert([[1, 2, 3]], [[0, 0, 0]])\nwords.shape, follows.shape",
    "Classifier": "classifier = Classifier.from_language_model(model, n_classes=2)\nclassifier([[1, 2, 3]]).shape",
    "Config": "Config(vocab_size=10, d_model=8).n_heads",
    "LanguageModel": "model = LanguageModel(vocab_size=10, n_layers=1, **sizes)\nlogits = model([[1, 2, 3]])  # ids (B, T) → (B, T, V)\nlogits.shape",
    "Translator": "translator = Translator(source_vocab=10, target_vocab=12, n_encoder=1, n_decoder=1, **sizes)\ntranslator([[1, 2, 3]], [[4, 5]]).shape",
    "positional_encoding": "positional_encoding(n_positions=3, d_model=4)",
}

# Methods of models: what all of them have, then what one kind has more
METHODS = {
    "Bert.hidden": "bert = Bert(vocab_size=10, n_layers=1, **sizes)\nbert.hidden([[1, 2, 3]], [[0, 0, 0]]).shape",
    "Bert.sentences": "bert = Bert(vocab_size=10, n_layers=1, **sizes)\nbert.sentences([[1, 2, 3], [4, 5, 6]]).shape",
    "Bert.loss": "bert = Bert(vocab_size=10, n_layers=1, **sizes)\nbert.loss([[1, 2, 3]], [[0, 0, 0]], [[-1, 5, -1]], [1], ignore_index=-1).shape",
    "Bert.losses": "bert = Bert(vocab_size=10, n_layers=1, **sizes)\nlen(bert.losses([[1, 2, 3]], [[0, 0, 0]], [[-1, 5, -1]], [1], ignore_index=-1))",
    "Classifier.from_language_model": "Classifier.from_language_model(model, n_classes=3)([[1, 2]]).shape",
    "Classifier.loss": "Classifier.from_language_model(model).loss([[1, 2, 3]], [1]).shape",
    "LanguageModel.fuse": "model.eval().fuse()  # one kernel a layer where no gradient will follow\nwith no_grad():\n    scores = model([[1, 2, 3]])\nscores.shape",
    "LanguageModel.recompute": "model.recompute()  # layers keep their inputs only; training takes less memory and more time\nmodel.recompute(False).training",
    "LanguageModel.attention": "weights = model.attention([[1, 2, 3]])  # layer → (B, H, T, S)\n{name: array.shape for name, array in weights.items()}",
    "LanguageModel.generate": "len(model.generate([[1, 2]], max_new_tokens=3)[0]) <= 3",
    "LanguageModel.kind": "model.kind",
    "LanguageModel.kinds": '"Translator" in model.kinds  # by which checkpoints find their class',
    "LanguageModel.loss": "model.loss([[1, 2, 3]], [[2, 3, 4]]).shape",
    "LanguageModel.rng_state": "sorted(model.rng_state())",
    "LanguageModel.set_rng_state": "model.set_rng_state(model.rng_state())",
    "LanguageModel.settings": 'model.settings()["d_model"]',
    "Translator.decode": "translator = Translator(source_vocab=10, target_vocab=12, n_encoder=1, n_decoder=1, **sizes)\ntranslator.decode([[4, 5]], translator.encode([[1, 2, 3]])).shape",
    "Translator.encode": "translator = Translator(source_vocab=10, target_vocab=12, n_encoder=1, n_decoder=1, **sizes)\ntranslator.encode([[1, 2, 3]]).shape",
    "Translator.loss": "translator = Translator(source_vocab=10, target_vocab=12, n_encoder=1, n_decoder=1, **sizes)\ntranslator.loss([[1, 2, 3]], [[1, 4]], [[4, 5]]).shape",
}

MODULE = {
    "DropoutSeeds": "seeds = DropoutSeeds(seed=0)\nseeds.next() != seeds.next()",
    "Init": 'Init(seed=0, dtype="float64").xavier(2, 3).shape',
    "Module": """class Gate(Module):
    def __init__(self, width):
        self.linear = Linear(width, width)
    def forward(self, x):
        return x * F.sigmoid(self.linear(x))

Gate(3)(x).shape""",
    "Module.backend": "model.backend.name",
    "Module.children": "[type(child).__name__ for child in model.children()]",
    "Module.eval": "model.eval().training",
    "Module.forward": "model.forward([[1, 2]]).shape  # model([[1, 2]]) calls it",
    "Module.load_state_dict": "model.load_state_dict(model.state_dict())",
    "Module.modules": "len(list(model.modules()))",
    "Module.named_modules": "[name for name, _ in model.named_modules()][:3]",
    "Module.named_parameters": "[name for name, _ in model.named_parameters()][:2]",
    "Module.num_bytes": "model.num_bytes()  # four for each parameter in float32",
    "Module.num_parameters": "model.num_parameters()",
    "Module.parameters": "len(model.parameters())",
    "Module.requires_grad_": "_ = model.requires_grad_(False)  # frozen\nmodel.parameters()[0].requires_grad",
    "Module.state_dict": "sorted(model.state_dict())[:2]",
    "Module.to": 'model.to("numpy").backend.name',
    "Module.train": "model.train().training",
    "Module.training": "model.training",
    "Module.zero_grad": "model.loss([[1, 2]], [[2, 3]]).backward()\nmodel.zero_grad()\nmodel.parameters()[0].grad is None",
    "Parameter": "Parameter(np.zeros(3)).requires_grad",
}

LAYERS = {
    "DecoderLayer": "layer = DecoderLayer(Config(source_vocab=10, target_vocab=10, **sizes))\nlayer(randn(1, 4, 8), randn(1, 6, 8)).shape",
    "Dropout": "drop = Dropout(0.5)\nprint(drop(ones(6)).numpy())\nprint(drop.eval()(ones(6)).numpy())  # only while training",
    "Embedding": "Embedding(10, 4)([1, 2, 3]).shape",
    "EncoderLayer": "EncoderLayer(Config(vocab_size=10, **sizes))(randn(1, 4, 8)).shape",
    "Head": "Head(3, 5)(x).shape",
    "LayerNorm": "LayerNorm(3)(x).mean(axis=1)",
    "Linear": "Linear(3, 5)(x).shape",
    "MultiheadAttention": "attend = MultiheadAttention(embed_dim=8, num_heads=2)\nattend(randn(1, 5, 8), is_causal=True).shape",
    "RMSNorm": "(RMSNorm(3)(x) ** 2).mean(axis=1)",
    "Stack": "config = Config(vocab_size=10, **sizes)\nStack([EncoderLayer(config), EncoderLayer(config)], config, init=Init())(randn(1, 4, 8)).shape",
    "activated": 'activated(x, "relu")',
    "decoder": "decoder(2, Config(source_vocab=9, target_vocab=9, **sizes), init=Init()).num_parameters()",
    "encoder": "encoder(2, Config(vocab_size=10, **sizes), init=Init()).num_parameters()",
    "norm": 'type(norm(Config(vocab_size=10, norm="rms", **sizes), init=Init())).__name__',
    "product": "product(x, randn(5, 3)).shape",
    "rows_at": "rows_at(randn(2, 5, 3), np.array([4, 1])).shape",
}

OPTIM = {
    "Adam": "optimizer = Adam(model.parameters(), lr=3e-3)\nmodel.loss([[1, 2]], [[2, 3]]).backward()\noptimizer.step()\noptimizer.zero_grad()",
    "AdamW": "AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)",
    "Optimizer": "issubclass(Adam, Optimizer)",
    "SGD": "SGD([x], lr=0.1, momentum=0.9)",
    "clip_grad_norm": "(3 * x).sum().backward()\nclip_grad_norm([x], 1.0)  # the norm before",
    "constant": "constant()(1000)",
    "inverse_square_root": "schedule = inverse_square_root(warmup=100)\n[round(schedule(step), 3) for step in (1, 50, 100, 400)]",
    "warmup_cosine": "schedule = warmup_cosine(warmup=10, total=100)\n[round(schedule(step), 3) for step in (1, 10, 55, 100)]",
}

DECODING = {
    "Cache": "len(Cache(n_layers=2, rows=1, capacity=8).layers)",
    "Hypothesis": "best = beam_search(model, [[1, 2]], beams=3, max_new_tokens=4)[0][0]\nisinstance(best, Hypothesis)",
    "Session": "Session(model, [[1, 2]], max_new_tokens=3).tokens.shape",
    "beam_search": "best = beam_search(model, [[1, 2]], beams=3, max_new_tokens=4)[0][0]\nlen(best.tokens), best.log_prob <= 0",
    "generate": "len(generate(model, [[1, 2]], max_new_tokens=4)[0]) <= 4",
    "probabilities": "probabilities(np.array([2.0, 1.0, 0.0]), temperature=0.5, top_k=2)",
    "repeated": "repeated([5, 6, 7, 5, 6], n=3)  # 7 would repeat 5 6 7",
    "stream": "[int(words[0]) < 10 for words in stream(model, [[1, 2]], max_new_tokens=3)]",
}

_MADE = """from minitransformer.app import Run, load, save
from minitransformer.app.data.tokenizers import WordTokenizer
from minitransformer.app.tasks.text_codec import TextCodec

words = WordTokenizer.train(["the plot is good", "the end is not"])
text = TextCodec(words)
mine = LanguageModel(vocab_size=words.vocab_size, n_layers=1, **sizes)
written = save(mine, text, "runs/mine")
"""

APP = {
    "Run": _MADE + 'isinstance(load("runs/mine"), Run)',
    "load": _MADE
    + 'model, text = load("runs/mine")\nlen(model.generate([text.encode("the plot", complete=False)], max_new_tokens=2)[0]) <= 2',
    "save": _MADE + "written  # every command takes the folder",
}

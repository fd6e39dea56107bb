"""Where the works that lessons name under "Further reading" are found. Lessons give authors and titles; the book adds
the address to each title, and has a page with all of them."""

import re
from pathlib import Path

from cells import split

from lessons.harness import claims

# Title as lessons spell it, small letters, up to the first colon → address. An empty one: a book to borrow, or a paper
# without a lasting address.
ADDRESSES = {
    "automatic differentiation in machine learning": "https://arxiv.org/abs/1502.05767",
    "evaluating derivatives": "https://doi.org/10.1137/1.9780898717761",
    "micrograd": "https://github.com/karpathy/micrograd",
    "attention is all you need": "https://arxiv.org/abs/1706.03762",
    "neural machine translation by jointly learning to align and translate": "https://arxiv.org/abs/1409.0473",
    "using complex variables to estimate derivatives of real functions": "https://doi.org/10.1137/S003614459631241X",
    "improving language understanding by generative pre-training": "https://openai.com/index/language-unsupervised/",
    "the annotated transformer": "https://nlp.seas.harvard.edu/annotated-transformer/",
    "transformer language models without positional encodings still learn positional information": (
        "https://arxiv.org/abs/2203.16634"
    ),
    "roformer": "https://arxiv.org/abs/2104.09864",
    "long short-term memory": "https://doi.org/10.1162/neco.1997.9.8.1735",
    "wavenet": "https://arxiv.org/abs/1609.03499",
    "flashattention": "https://arxiv.org/abs/2205.14135",
    "are sixteen heads really better than one?": "https://arxiv.org/abs/1905.10650",
    "low-rank bottleneck in multi-head attention models": "https://arxiv.org/abs/2002.07028",
    "using the output embedding to improve language models": "https://arxiv.org/abs/1608.05859",
    "scaling laws for neural language models": "https://arxiv.org/abs/2001.08361",
    "roofline": "https://doi.org/10.1145/1498765.1498785",
    "what every computer scientist should know about floating-point arithmetic": "https://doi.org/10.1145/103162.103163",
    "accuracy and stability of numerical algorithms": "https://doi.org/10.1137/1.9780898718027",
    "online normalizer calculation for softmax": "https://arxiv.org/abs/1805.02867",
    "self-attention does not need o(n²) memory": "https://arxiv.org/abs/2112.05682",
    "cut your losses in large-vocabulary language models": "https://arxiv.org/abs/2411.09009",
    'how to miscompile programs with "benign" data races': (
        "https://www.usenix.org/legacy/events/hotpar11/tech/final_files/Boehm.pdf"
    ),
    "threadsanitizer": "https://doi.org/10.1145/1791194.1791203",
    "gpuverify": "https://doi.org/10.1145/2384616.2384625",
    "optimizing parallel reduction in cuda": ("https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf"),
    "universal language model fine-tuning for text classification": "https://arxiv.org/abs/1801.06146",
    "baselines and bigrams": "https://aclanthology.org/P12-2018/",
    "bert": "https://arxiv.org/abs/1810.04805",
    "cloze procedure": "https://doi.org/10.1177/107769905303000401",
    "roberta": "https://arxiv.org/abs/1907.11692",
    "electra": "https://arxiv.org/abs/2003.10555",
    "scheduled sampling for sequence prediction": "https://arxiv.org/abs/1506.03099",
    "on layer normalization in the transformer architecture": "https://arxiv.org/abs/2002.04745",
    "the curious case of neural text degeneration": "https://arxiv.org/abs/1904.09751",
    "root mean square layer normalization": "https://arxiv.org/abs/1910.07467",
    "glu variants improve transformer": "https://arxiv.org/abs/2002.05202",
    "gqa": "https://arxiv.org/abs/2305.13245",
    "llm.int8()": "https://arxiv.org/abs/2208.07339",
    "gptq": "https://arxiv.org/abs/2210.17323",
    "qlora": "https://arxiv.org/abs/2305.14314",
    "sentence-bert": "https://arxiv.org/abs/1908.10084",
    "minilm": "https://arxiv.org/abs/2002.10957",
    "what does bert look at?": "https://arxiv.org/abs/1906.04341",
    "attention is not explanation": "https://arxiv.org/abs/1902.10186",
    "not not explanation": "https://arxiv.org/abs/1908.04626",
    "a new algorithm for data compression": "",
    "neural machine translation of rare words with subword units": "https://arxiv.org/abs/1508.07909",
    "japanese and korean voice search": "https://doi.org/10.1109/ICASSP.2012.6289079",
    "language models are unsupervised multitask learners": "https://openai.com/index/better-language-models/",
    "robust speech recognition via large-scale weak supervision": "https://arxiv.org/abs/2212.04356",
    "a scale for the measurement of the psychological magnitude pitch": "https://doi.org/10.1121/1.1915893",
    "attention-based models for speech recognition": "https://arxiv.org/abs/1506.07503",
    "bandwidth optimal all-reduce algorithms for clusters of workstations": (
        "https://doi.org/10.1016/j.jpdc.2008.09.002"
    ),
    "zero": "https://arxiv.org/abs/1910.02054",
    "pytorch distributed": "https://arxiv.org/abs/2006.15704",
    "fast reproducible floating-point summation": "https://doi.org/10.1109/ARITH.2013.9",
    "algorithm 799": "https://doi.org/10.1145/347837.347846",
    "training deep nets with sublinear memory cost": "https://arxiv.org/abs/1604.06174",
    "reducing activation recomputation in large transformer models": "https://arxiv.org/abs/2205.05198",
}
_TITLE = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)")
_SECTION = re.compile(r"## Further reading\n(.*?)(?=^## |^\*\*Exercises|\Z)", re.DOTALL | re.MULTILINE)


def key(title: str) -> str:
    return " ".join(title.split()).lower().partition(":")[0]


def titles(prose: str) -> list[str]:
    """What the section of a lesson names."""
    return [title for section in _SECTION.findall(prose) for title in _TITLE.findall(section)]


def linked(prose: str) -> str:
    """The prose of a lesson with an address behind each title of its section."""

    def link(found: re.Match) -> str:
        address = ADDRESSES.get(key(found[1]), "")
        return f"[{found[0]}]({address})" if address else found[0]

    return _SECTION.sub(lambda section: _TITLE.sub(link, section[0]), prose)


def page(scripts: list[Path]) -> str:
    """What all lessons recommend, by lesson."""
    parts = ["# Further reading", "What the lessons recommend, and what each work is good for."]
    for script in scripts:
        prose = "\n\n".join(cell.text for cell in split(script.read_text(encoding="utf-8")) if cell.markdown)
        for section in _SECTION.findall(prose):
            lesson = f"## {int(script.stem[:2])}. [{claims.title(script)}](lessons/{script.stem}.md)"
            parts += [lesson, _SECTION.sub(r"\1", linked(f"## Further reading\n{section}")).strip()]
    return "\n\n".join(parts) + "\n"

"""Writing text: greedy, sampled or by beam search, for language models and translators, with a key-value cache.

generate(model, ids, max_new_tokens=20, eos=2)             most likely words
generate(model, ids, temperature=0.8, top_p=0.9, seed=1)   drawn
for words in stream(model, ids, eos=2): ...                as they come
beam_search(translator, source, source_lengths, eos=2)     the best whole sentences
"""

from minitransformer.decoding.beam import Hypothesis, beam_search
from minitransformer.decoding.cache import Cache
from minitransformer.decoding.constraints import probabilities, repeated
from minitransformer.decoding.sampling import generate, stream
from minitransformer.decoding.session import Session

__all__ = ["Cache", "Hypothesis", "Session", "beam_search", "generate", "probabilities", "repeated", "stream"]

"""What a model hands over is lost on the way: its base to a classifier, its keys and values to the next word."""

import numpy as np

from lessons.harness.engine import Engine
from minitransformer import Classifier
from minitransformer.decoding import session
from minitransformer.decoding.cache import LayerCache


def base_forgotten(engine: Engine) -> None:
    """the swap makes a new base instead of keeping the old one"""

    def from_language_model(lm, n_classes=2, seed=0):
        return Classifier(lm.config, n_classes=n_classes, seed=seed)

    engine.replace(Classifier, "from_language_model", lambda _: from_language_model)


def base_shared(engine: Engine) -> None:
    """the swap hands over the base itself, so that both models train it"""
    engine.replace(Classifier, "from_language_model", lambda f: lambda lm, **o: f(lm, **o, share=True))


def weights_shuffled(engine: Engine) -> None:
    """the base is handed over with the numbers of each weight shuffled"""

    def change(swap):
        def shuffled(lm, **options):
            classifier, rng = swap(lm, **options), np.random.default_rng(0)
            state = classifier.base.state_dict()
            mixed = {name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in state.items()}
            classifier.base.load_state_dict(mixed)
            return classifier

        return shuffled

    engine.replace(Classifier, "from_language_model", change)


def by_the_layers(model, words, cache):
    """A new word is read by the layers, like others: what is broken in them is not gone round."""
    return model.base(words[:, None], cache=cache).array[:, 0]


def stale_cache(engine: Engine) -> None:
    """the newest word's key and value are not seen yet"""

    def change(extend):
        def stale(self, k, v):
            keys, values, options = extend(self, k, v)
            return keys, values, options | ({"key_lengths": self.cache.lengths} if k.shape[2] == 1 else {})

        return stale

    engine.replace(LayerCache, "extend", change)
    engine.replace(session, "read_word", lambda _: by_the_layers)

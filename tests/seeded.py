"""Which attacks are made: the same ones each time.

MINITRANSFORMER_HOSTILE_SEED=N draws others, MINITRANSFORMER_HOSTILE_PART=N one in N of them."""

import os

SEED = int(os.environ.get("MINITRANSFORMER_HOSTILE_SEED", "0"))
PART = int(os.environ.get("MINITRANSFORMER_HOSTILE_PART", "1"))

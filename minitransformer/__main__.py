"""python -m minitransformer"""

import sys

from minitransformer.cli import main

sys.exit(main())

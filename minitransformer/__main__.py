"""python -m minitransformer"""

import sys

from minitransformer.app.cli.start import main

sys.exit(main())

"""python -m minitransformer"""

import sys

from minitransformer.app.cli.main import main

sys.exit(main())

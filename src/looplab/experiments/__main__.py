"""The process of the container that measures: `python3 -m looplab.experiments NAME`, else by EXPERIMENT the loop's."""

import os
import sys

from looplab.experiments.registry import EXPERIMENTS
from looplab.run.life import main

if __name__ == "__main__":
    (name,) = sys.argv[1:] or [os.environ.get("EXPERIMENT") or EXPERIMENTS.default]
    sys.exit(main(EXPERIMENTS[name]))

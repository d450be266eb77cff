"""The process of the container that measures: `python3 -m looplab.experiments NAME`."""

import sys

from looplab.experiments.registry import EXPERIMENTS
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENTS[sys.argv[1]]))

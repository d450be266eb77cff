"""The first process of each start: looplab.run.prepare with the secrets of these experiments."""

import sys

from looplab.experiments.registry import EXPERIMENTS
from looplab.run.prepare import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENTS, sys.argv[1:]))

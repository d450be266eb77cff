"""The first process of each start, looplab.run.prepare with the secrets of these experiments; with `guide` the last."""

import os
import sys
from pathlib import Path

from looplab.experiments.registry import EXPERIMENTS
from looplab.run.prepare import guide, main

if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(print(guide(os.environ, Path("/compose"))) if words == ["guide"] else main(EXPERIMENTS, words))

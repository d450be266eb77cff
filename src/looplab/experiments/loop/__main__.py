"""The process of one run of the loop."""

import sys

from looplab.experiments.loop import EXPERIMENT
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

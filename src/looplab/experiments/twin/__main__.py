"""The process of one run of twin."""

import sys

from looplab.experiments.twin import EXPERIMENT
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

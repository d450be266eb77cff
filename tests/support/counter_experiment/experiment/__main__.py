"""The process of one run of the counter."""

import sys

from looplab.experiments.counter import EXPERIMENT

from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

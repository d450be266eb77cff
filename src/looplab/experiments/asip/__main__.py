"""The process of one run of asip."""

import sys

from looplab.experiments.asip import EXPERIMENT
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

"""The process of one run of middleware or middleware-nodes."""

import sys

from looplab.experiments.middleware import EXPERIMENT
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

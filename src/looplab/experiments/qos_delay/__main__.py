"""The process of one run of qos-delay."""

import sys

from looplab.experiments.qos_delay import EXPERIMENT
from looplab.run.life import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))

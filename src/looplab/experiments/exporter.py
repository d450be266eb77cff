"""The exporter's process: looplab.exporter with the experiments of this lab."""

import sys

from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.server import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENTS))

"""The treatments service's process: looplab.treatments.service with the roles of this lab's experiments."""

import sys

from looplab.experiments.registry import EXPERIMENTS
from looplab.treatments.service import main

if __name__ == "__main__":
    sys.exit(main(EXPERIMENTS))

"""./lab setup: what `./lab run` would do first, and asking again for what was not available before."""

from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD
from looplab.lab.checkout import Lab
from looplab.lab.scenarios import chosen
from looplab.system.terminal import say


def setup(root: Path, scenarios: Sequence[str] = ()) -> int:
    """Make this machine ready, for `scenarios` that need images of their own, too; return the exit code."""
    lab = Lab(root, wanted=[scenario.experiment for scenario in chosen(root, scenarios)])
    lab.make_ready(ask_again=True)
    lab.ready_report()
    say(f"The lab is ready: ./lab run {next(iter(scenarios), 'scenario5')}")
    return EXIT_GOOD

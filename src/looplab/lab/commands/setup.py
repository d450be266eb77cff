"""./lab setup: what `./lab run` would do first, and asking again for what was not available before."""

from pathlib import Path

from looplab.errors import EXIT_GOOD
from looplab.lab.checkout import Lab
from looplab.lab.commands.pair import prepare
from looplab.lab.credentials.identities import exist
from looplab.system.terminal import say


def setup(root: Path) -> int:
    """Make this machine ready; return the exit code."""
    lab = Lab(root)
    lab.make_ready(ask_again=True)
    if lab.listens_with_tls() or exist(root):
        prepare(lab)
    say("The lab is ready: ./lab run scenario5")
    return EXIT_GOOD

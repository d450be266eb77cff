"""./lab down: stop and remove everything; results stay."""

from pathlib import Path

from looplab.errors import EXIT_GOOD, MachineError
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import find_engine, require_compose
from looplab.system.terminal import say


def down(root: Path) -> int:
    """Stop and remove every container and network of the lab; return the exit code."""
    require_compose(find_engine())
    done = Lab(root).compose().down()
    if not done.good:
        raise MachineError(f"Compose could not stop the lab: {done.said}", "See `docker ps`.")
    say("Everything is stopped; results/ is unchanged.")
    return EXIT_GOOD

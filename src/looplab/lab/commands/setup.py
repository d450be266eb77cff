"""./lab setup: what `./lab run` would do first, asking again for what was missing; ./lab down: stop everything."""

from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD, MachineError
from looplab.lab.alone import run_that_goes_on
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import find_engine, require_compose
from looplab.lab.docker.images import remove_replaced
from looplab.lab.hosts.run import down_all
from looplab.lab.scenarios import chosen, every
from looplab.lab.session import recover
from looplab.lab.settings import project_name
from looplab.system.terminal import say


def setup(root: Path, scenarios: Sequence[str] = ()) -> int:
    """Make this machine ready, for `scenarios` that need images of their own, too; return the exit code."""
    Lab(root, scenarios=chosen(root, ["all", *scenarios]), ask_again=True).make_ready()
    Lab(root).ready_report()
    say(f"The lab is ready: ./lab run {next(iter(scenarios), 'scenario5')}")
    return EXIT_GOOD


def down(root: Path) -> int:
    """Stop and remove every container and network of the lab; return the exit code."""
    engine, compose = find_engine(), Lab(root).compose()
    require_compose(engine)
    if run := run_that_goes_on(root, engine, compose, every(root).keys()):
        say(f"This ends a run that goes on: {run}.")
    else:
        recover(compose, root)
    done = compose.down()
    if not done.good:
        raise MachineError(f"Compose could not stop the lab: {done.reason}", "See `docker ps`.")
    remove_replaced(project_name(root))
    down_all()
    say("Everything is stopped; results/ is unchanged.")
    return EXIT_GOOD

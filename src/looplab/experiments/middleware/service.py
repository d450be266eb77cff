"""What nodes, balancer and devices share: a process that answers the orders of the controller until a signal."""

import os
import sys
from collections.abc import Callable

from looplab.errors import EXIT_GOOD, LabError, MachineError
from looplab.experiments.middleware.placement import others
from looplab.system import own_process
from looplab.system.json_service import Routes, serve


def run_service(name: str, port: int, routes: Routes, token: Callable[[], str], stop: Callable[[], None]) -> int:
    """Answer `routes` as process `name` until a signal, then call `stop`; return the exit code."""
    own_process.set_name(name)
    # A service must not take processor time from the middleware.
    os.sched_setaffinity(0, others(os.cpu_count() or 1))
    stopped = own_process.stop_event()
    try:
        if not token():
            raise MachineError(f"{name} has no token.", "`docker compose up` has `prepare` write one.")
        serve("0.0.0.0", port, routes, "Another one may hold it: `./lab down` ends it.", token)
        print("ready for orders", flush=True)
        stopped.wait()
        return EXIT_GOOD
    except LabError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        stop()

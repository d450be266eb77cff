"""The treatments service: reads the live processes, applies scheduling policies, and reads again.

It owns the PID namespace that the lab's containers share, so it sees them all; the measured processes
themselves hold no privilege. It knows no scenario: each request says what is asked. Which roles there are, and up to
which priority, is fixed at its start; the token is that of this start of the lab.

DELETE /loads ends the containers of all loads: a run that is over needs none.
POST /facts with {"roles": {"broker": {"comm": ["mosquitto"], "fifo": 90}, ...}, "published_from": "host:port",
"broker": "mosquitto"} answers {"roles": {"broker": {"before": [...], "processes": [...], "refused": ["..."]}},
"published": 1234, "published_counts": [[1100, 56789], ...], "noise": [...], ...}.
`before` is what was found, `processes` what was there after the policies were applied: else a policy that was lost
since the last request would be restored unseen.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError, UsageError
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.experiment import Experiments
from looplab.system import own_process, processes
from looplab.system.json_client import read_token, secret_file
from looplab.system.json_service import Routes, serve, server_tls
from looplab.system.processes import at_address, files_of
from looplab.treatments.broker import PublishCounts, published
from looplab.treatments.loads import loads
from looplab.treatments.probes import Probes
from looplab.treatments.scans import TOKEN

PORT = 9100


# Process names and file patterns of each role, with the highest priority it may get.
Permitted = Mapping[tuple[tuple[str, ...], tuple[str, ...]], int]


def permitted(experiments: Experiments) -> Permitted:
    """Return what may be asked: the roles of all experiments, brokers and loads."""
    roles = [role for experiment in experiments.values() for role in experiment.roles]
    roles += [broker.role for broker in BROKERS.values()] + [load.role for load in loads().values()]
    most: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    for role in roles:
        key = (role.comms, role.files)
        most[key] = max(most.get(key, 0), role.fifo, role.most_fifo)
    return most


def check(request: dict[str, Any], permitted: Permitted) -> None:
    """Raise UsageError if `request` names a role that is unknown, or a priority above its highest."""
    for name, role in request.get("roles", {}).items():
        most = permitted.get((tuple(role["comm"]), tuple(role.get("files", ()))), -1)
        if not 0 <= int(role.get("fifo") or 0) <= most:
            raise UsageError(f"The role {name} as asked is none of this lab.", "Ask as an experiment's table has it.")


def answer(
    request: dict[str, Any], permitted: Permitted, probes: Probes | None = None, counts: PublishCounts | None = None
) -> dict[str, Any]:
    """Apply what `request` asks for and return what is found before and afterwards, what `probes` and `counts` saw.

    Raises UsageError, and applies nothing, if it asks for more than is `permitted`.
    """
    check(request, permitted)
    roles = {
        name: treat(
            at_address(role["address"])
            if role.get("address")
            else [pid for comm in role["comm"] for pid in processes.named(comm)],
            int(role.get("fifo") or 0),
            role.get("files", ()),
        )
        for name, role in request.get("roles", {}).items()
    }
    reply: dict[str, Any] = {
        "roles": roles,
        "processors": processes.processor_times(),
        "own_cpu_s": processes.cpu_s(),
        "clock_ns": perf_counter_ns(),
        "noise": probes.read() if probes else [],
    }
    if request.get("published_from"):
        host, _, port = request["published_from"].rpartition(":")
        broker = BROKERS[request.get("broker", DEFAULT)]
        reply["published"], reply["published_clock_ns"] = published(broker, host, int(port))
        reply["published_counts"] = counts.take(broker, host, int(port)) if counts else []
    elif counts:
        counts.stop()
    return reply


def end_loads() -> dict[str, Any]:
    """End the container of each process of a load; return how many processes there were.

    Raises UsageError where other processes than the lab's are seen.
    """
    if os.getpid() != 1:
        raise UsageError("Only process 1 of the lab's own PID namespace ends loads.", "End them where they run.")
    pids = [pid for load in loads().values() for comm in load.comms for pid in processes.named(comm)]
    for pid in pids:
        processes.end_container(pid)
    return {"ended": len(pids)}


def treat(pids: Sequence[int], fifo: int, files: Sequence[str] = ()) -> dict[str, Any]:
    """Read the processes of a role, put them under SCHED_FIFO `fifo` (0: leave them), read them again.

    Each one afterwards names the `files` (patterns) of its container that exist.
    """
    before = [found for pid in pids if (found := processes.identity(pid)) is not None]
    refused = [why for pid in pids if fifo and (why := processes.set_fifo(pid, fifo))]
    after = [{**found, "files": files_of(pid, files)} for pid in pids if (found := processes.facts(pid)) is not None]
    return {"before": before, "processes": after, "refused": refused}


@own_process.program("lab-treatments")
def main(experiments: Experiments) -> int:
    """Serve the roles of `experiments` until SIGTERM, at the address TREATMENTS_BIND; 3 without a token or a port.

    TREATMENTS_CERTIFICATE names a file beside the token: then it answers by TLS alone.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Process 1 of the namespace: orphans of all its containers come here, and only this process can reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    probes, counts = Probes(), PublishCounts()
    known = permitted(experiments)
    routes: Routes = {
        "POST /facts": lambda request: answer(request.body, known, probes, counts),
        "DELETE /loads": lambda _request: end_loads(),
    }
    token = partial(read_token, TOKEN)
    if not token():
        raise MachineError("No token for the treatments service.", "`docker compose up` has `prepare` write one.")
    # Read again at each request: `prepare` makes a new one at each start, and this service may outlive a run.
    certificate = os.environ.get("TREATMENTS_CERTIFICATE")
    tls = server_tls(secret_file(certificate)) if certificate else None
    serve(os.environ.get("TREATMENTS_BIND") or "127.0.0.1", PORT, routes, "Stop the other one.", token, tls)
    while True:
        signal.pause()

"""The experiment middleware: does an IoT middleware scale with cores and with nodes, and what does a container cost?"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Figure, Key, Latency, Part, Text
from looplab.spec.document import Document, defined, each, rows
from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER, Role, Secret

NAME = "middleware"
NODES = "middleware-nodes"
# The system under test decides which of these services run, so all of them are optional.
_SERVICES = {
    "users": "users",
    "auth": "auth",
    "things": "things",
    "http": "http",
    "spicedb": "spicedb",
    "postgres": "postgres",
    "nats": "nats-server",
    "redis": "redis-server",
    "writer": "postgres-writer",
    "nginx": "nginx",
    "devices": "lab-devices",
}
_NODE_GID = 10021
# The passwords of a node's services, and the token that orders to nodes carry.
SECRETS = (
    *(Secret(f"services/{name}", group=_NODE_GID) for name in ("postgres", "spicedb", "tokens", "admin")),
    Secret("nodes", group=_NODE_GID, each_start=True),
)


_FATES = ("succeeded", "failed", "unfinished")
# These keys are missing in runs of older versions.
_OF_REPETITION = {
    **dict.fromkeys(("response_us", "sent_response_us", "server_us", "send_lateness_us"), "latency"),
    "processed": "count",
    **dict.fromkeys(("lost", "duplicates", "cpu_s_per_request"), "number"),
    **dict.fromkeys(("memory_bytes_at_start", "memory_bytes_at_end"), "number"),
    **dict.fromkeys(("cpu_s", "memory_end_bytes"), "numbers"),
}


def _where(cell: "LoadCell") -> str:
    return "balancer" if cell.balancer else "container" if cell.container else "bare"


def _processed(cell: "LoadCell") -> float | None:
    # A repetition has `seconds`, a cell has the sum over its repetitions.
    seconds = cell.document.get("seconds") or sum(one["seconds"] for one in cell.each_repetition)
    return cell.processed / seconds if seconds else None


def _failed(cell: "LoadCell") -> float | None:
    return (cell.failed + cell.unfinished) / cell.requests if cell.requests else None


def _scaled(name: str, factor: float, cell: "LoadCell") -> float | None:
    value: float | None = cell.columns[name].of(cell)
    return None if value is None else value * factor


class Placement(NamedTuple):
    """Where the middleware runs, in words "2 cores, container" or "5 nodes x 4 cores, balancer".

    `cores` are those of one node.
    """

    container: bool
    balancer: bool
    nodes: int
    cores: int

    @property
    def size(self) -> str:
        """Its size in words: "2 cores", "5 nodes x 4 cores"."""
        size = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        return f"{self.nodes} nodes x {size}" if self.nodes > 1 else size

    def __str__(self) -> str:
        where = "balancer" if self.balancer else "container" if self.container else "bare metal"
        return f"{self.size}, {where}"


class LoadCell(Cell):
    """A load on one placement; `cores` are the processors of one node, `balancer` says whether nginx is in front."""

    note = (
        "done/s: requests that succeeded in each second of the load; resp: from due to answered, in ms, - if too many "
        "requests had no good answer; cpu/req: processor ms of a request in the middleware; MiB: its memory at start"
    )
    container = Key(bool, "in a container, or on bare metal", default=True)
    balancer = Key(bool, "behind the balancer", default=False)
    nodes = Key(int, "how many nodes", heading="nodes", default=1)
    cores = Key(int, "processors of one node", heading="cores")
    devices = Key(int, "how many devices post", heading="dev.")
    where = Text(_where, heading="where")
    requests = Count("requests that were due", total=True)
    succeeded = Count("requests that succeeded", outcome="succeeded", fates=("answered",))
    processed = Count("requests whose success came while the load lasted, as the paper counts")
    processed_per_s = Figure(
        "requests that succeeded in each second of the load", made=_processed, heading="done/s", digits=1, live=True
    )
    failed = Count("requests with another answer than success, or none", heading="failed", outcome="failed")
    unfinished = Count(
        "requests without an answer when the repetition ended", heading="unfin.", outcome="unfinished", fates=("lost",)
    )
    response = Latency(
        "from when a request was due to its answer", heading="resp", table=("p50", "p99"), decades=(-4, 1), live=True
    )
    sent_response = Latency("from when a request was sent to its answer", live=True)
    server = Latency("inside the middleware", live=True)
    failed_share = Figure("share of the requests that failed or were unfinished", made=_failed, live=True)
    cpu_per_request = Figure(
        "processor time of the middleware for a request",
        made=partial(_scaled, "cpu_s_per_request", 1e6),
        unit="us",
        heading="cpu/req",
        live=True,
    )
    memory = Figure(
        "memory of the middleware when the load begins",
        unit="MiB",
        made=partial(_scaled, "memory_bytes_at_start", 2**-20),
        heading="MiB",
        digits=0,
    )

    cpu_s_per_request = Figure(
        "processor time of the middleware's services during the load, for a request processed then",
        unit="s",
    )
    memory_bytes_at_start = Figure(
        "memory of the middleware's services when the load begins, mean of the repetitions",
        unit="bytes",
    )
    memory_bytes_at_end = Figure(
        "memory of the middleware's services after the last answer, mean of the repetitions",
        unit="bytes",
    )
    lost = Figure("messages that were posted and are not in the database", pooled=sum)
    duplicates = Figure("messages that the database holds more than once", pooled=sum)
    out_of_memory = Part("whether the kernel killed a service for lack of memory", defined("switch"))
    dead = Part("services that ended before their time", defined("names"))
    failed_by = Part(
        "failed requests by cause: http_<status>, or the exception that ended one, as Python names it", each("count")
    )
    each_repetition = Part(
        "what each repetition measured: counts, times, processor time and memory of each service",
        rows(_OF_REPETITION, seconds="amount", **dict.fromkeys(("repetition", "requests", *_FATES), "count")),
        path="by_repetition",
    )

    @property
    def place(self) -> Placement:
        return Placement(self.container, self.balancer, self.nodes, self.cores)

    def __str__(self) -> str:
        return f"{self.devices} devices, {self.place}"

    @classmethod
    def remarks(cls, run: Document) -> Iterator[str]:
        for cell in map(cls, run["cells"]):
            if cell.out_of_memory:
                yield f"{cell}: out of memory."


EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}*",
    cell=LoadCell,
    roles=(
        CONTROLLER,
        *(Role(name, (comm,), optional=True) for name, comm in _SERVICES.items()),
    ),
    studies={name: (name,) for name in (NAME, f"{NAME}-nodes")},
    secrets=SECRETS,
    host=True,
)

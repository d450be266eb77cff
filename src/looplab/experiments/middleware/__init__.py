"""The experiment middleware: does an IoT middleware scale with cores and with nodes, and what does a container cost?"""

from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER, Role

NAME = "middleware"
NODES = "middleware-nodes"
# Which services a node has depends on the system under test, so none of these must be there.
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
EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}*",
    roles=(CONTROLLER, *(Role(name, (comm,), optional=True) for name, comm in _SERVICES.items())),
    images=("magistrala", "devices"),
    host=True,
    passwords=("postgres", "spicedb", "tokens", "admin"),
)

"""The experiment twin: where the limit of a digital twin is, at the broker or where each message is stored."""

from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER, Role

NAME = "twin"
# A broker with persistence keeps one file for each of its ports.
BROKER = Role("broker", ("mosquitto",), files=("mosquitto/data/*/mosquitto.db",))
INSTANCE = Role("instance", ("lab-twin",))
WORKERS = Role("workers", ("lab-twin-store",), optional=True)
DATABASE = Role("database", ("postgres",))
EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios="compose/experiments/twin*",
    roles=(CONTROLLER, BROKER, INSTANCE, WORKERS, DATABASE),
    images=("sqlclient",),
    upstream=("POSTGRES_IMAGE",),
    switches=("TWIN_DATABASE_PORT",),
    passwords=("database_owner", "database_writer", "database_reader"),
    host=True,
)

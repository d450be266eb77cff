"""The digital twin on loopback: real broker, real PostgreSQL, the instance and the controller as processes."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.schema import run_schema
from looplab.system import processes
from support.parts import Broker, Child, TreatmentsDouble, python
from support.postgres import Postgres
from support.tables import rows
from support.waiting import until

INSTANCE = "looplab.experiments.twin.instance"
OUTCOMES = ("stored", "lost", "refused")


class TwinLab:
    """The parts that a test starts; `run` is the run.json document of the only run."""

    def __init__(self, broker: Broker, postgres: Postgres, start: Callable[..., Child], folder: Path) -> None:
        self.broker, self.postgres, self.start = broker, postgres, start
        # Others, beside it.
        self.more_brokers: list[Broker] = []
        self.live, self.results = folder / "live", folder / "results"
        self.live.mkdir()
        self.results.mkdir()
        self.children: dict[str, Child] = {}
        self._treatments = TreatmentsDouble(self._pids)
        self.instance()

    def instance(self) -> Child:
        """Start the instance, or its successor."""
        variables = {"LIVE_DIR": str(self.live), "DATABASE": self.postgres.conninfo()}
        self.children["instance"] = self.start(python(INSTANCE), **variables)
        return self.children["instance"]

    def kill_instance(self) -> None:
        """Kill the instance with its workers, at once."""
        for pid in [*self.workers(), self.children["instance"].pid]:
            os.kill(pid, signal.SIGKILL)
        self.children["instance"].process.wait()

    def workers(self) -> list[int]:
        """Return the processes that store."""
        parent = str(self.children["instance"].pid)
        return [pid for pid, name, stat in processes.every() if name == "lab-twin-store" and stat[1] == parent]

    def controller(self, **variables: str) -> Child:
        """Start a run of 300 messages, 5 ms apart, a commit a row; variables override."""
        hosts = ",".join(f"{one.host}:{one.port}" for one in self._brokers())
        settings = {
            "BROKER_HOSTS": hosts, "RESULTS_DIR": str(self.results), "LIVE_DIR": str(self.live),
            "SCENARIO": "twin", "FIDELITY": "corrected", "INTERVALS_MS": "5", "MESSAGES": "300",
            "WRITE_MODE": "row", "LOOPLAB_EVENTS": "json",
            "DATABASE": self.postgres.conninfo("twin_reader"), "TREATMENTS_URL": self._treatments.url,
            "PARTS_TIMEOUT_S": "30", "DRAIN_TIMEOUT_S": "60",
        }  # fmt: skip
        self.children["controller"] = self.start(python("looplab.experiments", "twin"), **{**settings, **variables})
        return self.children["controller"]

    def whole(self, **variables: str) -> dict[str, Any]:
        """Make a run; return its document."""
        child = self.controller(**variables)
        child.wait()
        return self.run

    def stored(self) -> int:
        """Return how many rows the table has."""
        return int(str(self.postgres.ask("SELECT count(*) FROM message")[0][0]))

    def until_stored(self, count: int) -> None:
        """Wait until the table has so many rows more than before the run."""
        until(lambda: self.stored() >= count, f"{count} messages are stored")

    @property
    def folder(self) -> Path:
        (found,) = self.results.iterdir()
        return found

    @property
    def run(self) -> dict[str, Any]:
        return document(self.folder)

    def samples(self) -> list[dict[str, str]]:
        return rows(self.folder / "samples.csv")

    def close(self) -> None:
        self._treatments.close()

    def _brokers(self) -> list[Broker]:
        return [self.broker, *self.more_brokers]

    def _pids(self) -> dict[str, list[int]]:
        own = {role: [child.pid] for role, child in self.children.items() if child.process.poll() is None}
        return {**own, "broker": [one.pid for one in self._brokers()], "workers": self.workers()}


def document(folder: Path) -> dict[str, Any]:
    """The run.json of a run; fails where it is not as the spec of its experiment says."""
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    # A run that ended before its first cell is no run to the pages.
    if found["cells"]:
        experiment = EXPERIMENTS[found["experiment"]]
        run_schema(experiment.table(found["scenario"]), experiment.parameters).validate(found)
    return found


def account(cell: dict[str, Any], samples: list[dict[str, str]]) -> dict[str, int]:
    """Return how many messages had each outcome; fails unless cell and samples hold every message once."""
    found = {outcome: sum(row["outcome"] == outcome for row in samples) for outcome in OUTCOMES}
    assert found == {outcome: cell[outcome] for outcome in OUTCOMES}
    assert cell["sent"] == sum(found.values()) == len(samples) == len({row["sequence"] for row in samples})
    return found

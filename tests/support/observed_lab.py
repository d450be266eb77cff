"""A lab without containers: Debian's broker and Prometheus, the real bridge, controller and exporter, on loopback."""

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.dashboards import PATHS, load
from support.parts import HOST, Child, free_port, python
from support.places import ROOT
from support.waiting import until

PARTS = ("broker", "bridge", "exporter", "prometheus")
# Those with published points beside their curves.
SCENARIOS = ("scenario1", "scenario2", "scenario4", "scenario5")
# What a person would choose at the top of the dashboards.
CHOICES = {
    "$experiment": ".+", "$scenario": ".+", "$fidelity": "thesis", "$cell": ".+", "$figure": ".+", "$metric": "O",
}  # fmt: skip


class Lab:
    """Starts and stops the parts by name; everything it writes is under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results, self.live = folder / "results", folder / "live"
        for path in (self.results, self.live, folder / "prometheus"):
            path.mkdir()
        self.ports = {name: free_port() for name in ("broker", "exporter", "prometheus")}
        self.environment = {
            "BROKER_HOST": HOST,
            "BROKER_PORT": str(self.ports["broker"]),
            "RESULTS_DIR": str(self.results),
            "LIVE_DIR": str(self.live),
            "EXPORTER_PORT": str(self.ports["exporter"]),
            # As in compose/observe.yaml.
            "GOMAXPROCS": "1",
            "GOGC": "25",
            "MALLOC_ARENA_MAX": "1",
            "TREATMENTS_URL": f"http://{HOST}:1/facts",
        }
        text = (ROOT / "compose/mosquitto/mosquitto.conf").read_text()
        (folder / "mosquitto.conf").write_text(
            text.replace("listener 1883", f"listener {self.ports['broker']} 127.0.0.1")
        )
        for path in (ROOT / "compose/prometheus").glob("*.yml"):
            text = path.read_text().replace("exporter:9101", f"127.0.0.1:{self.ports['exporter']}")
            (folder / "prometheus" / path.name).write_text(text)
        self._commands = {
            "broker": ["mosquitto", "-c", str(folder / "mosquitto.conf")],
            "bridge": python("looplab.experiments.loop.bridge.program"),
            "exporter": python("looplab.experiments.exporter"),
            "prometheus": [
                "prometheus",
                f"--config.file={folder / 'prometheus/prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'prometheus/data'}",
                f"--web.listen-address=127.0.0.1:{self.ports['prometheus']}",
            ],
        }
        self._children: dict[str, Child] = {}

    def start(self, *names: str) -> None:
        """Start those of these parts that do not run."""
        for name in names:
            if name not in self._children:
                self._start(name, self._commands[name])

    def _start(self, name: str, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{name.partition('-')[0]}.log"
        child = self._children[name] = Child(command, log, {**self.environment, **variables})
        return child.process

    def kill(self, name: str) -> None:
        self._children.pop(name).kill()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for name in list(self._children):
            self.kill(name)

    def run(self, scenario: str, **settings: object) -> subprocess.Popen[bytes]:
        """Start a controller with the emulated robot; few messages unless told otherwise."""
        few = {"COMMAND": "E", "INTERVALS_MS": "20 10", "MESSAGES": 40, "REPETITIONS": 1, "WARMUP_MESSAGES": 5}
        chosen = {name: str(value) for name, value in {**few, **settings, "SCENARIO": scenario}.items()}
        return self._start(f"controller-{scenario}", python("looplab.experiments", "loop"), **chosen)

    def run_to_its_end(self, scenario: str, **settings: object) -> Path:
        """One whole run; its folder. Invalid by exit code 1, for no treatments service is here."""
        before = set(self.results.iterdir())
        code = self.run(scenario, **settings).wait(120)
        assert code in (0, 1), self.log("controller")
        (folder,) = set(self.results.iterdir()) - before
        assert (folder / "run.json").exists(), self.log("controller")
        return folder

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant query's series."""
        return self._ask("query", {"query": expression})

    def panel(self, dashboard: str, title: str) -> dict[str, list[float]]:
        """Return a panel's values by the label `series` or its queries' legends; NaN only fills an empty panel."""
        found: dict[str, list[float]] = {}
        for name, panel, target in targets():
            if (name, panel["title"]) == (dashboard, title):
                for one in self.query(fill(target["expr"])):
                    if one["value"][1] != "NaN":
                        key = one["metric"].get("series", target["legendFormat"])
                        found.setdefault(key, []).append(float(one["value"][1]))
        return found

    def query_range(self, expression: str, seconds: int) -> list[dict[str, Any]]:
        now = time.time()
        return self._ask("query_range", {"query": expression, "start": now - seconds, "end": now, "step": 1})

    def _ask(self, kind: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        url = f"http://{HOST}:{self.ports['prometheus']}/api/v1/{kind}"
        data = urllib.parse.urlencode(arguments).encode()
        try:
            with urllib.request.urlopen(url, data, timeout=10) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise ConnectionError("Prometheus is still starting") from error
            raise AssertionError(f"{error.read().decode()}\n{arguments['query']}") from error


@contextlib.contextmanager
def observed(folder: Path) -> Iterator[Lab]:
    """A lab in `folder` with broker, bridge, exporter and Prometheus at work; stopped at the end."""
    lab = Lab(folder)
    try:
        lab.start(*PARTS)
        until(lambda: lab.query("lab_bridge_online == 1 and lab_broker_up == 1"), "broker and bridge are at work")
        yield lab
    except AssertionError as error:
        for name in PARTS:
            error.add_note(f"{name}: {lab.log(name)[-800:]}")
        raise
    finally:
        lab.close()


def fill(expression: str, choices: dict[str, str] | None = None) -> str:
    """A panel's expression with its variables filled in; fails where one is left."""
    for name, value in {**CHOICES, **(choices or {})}.items():
        expression = re.sub(re.escape(name) + r"\b", value.replace("\\", r"\\"), expression)
    left = re.findall(r"\$[a-zA-Z_]\w*", re.sub(r'"[^"]*\$1[^"]*"', "", expression))
    assert not left, (left, expression)
    return expression


def targets() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(dashboard, panel, target) of every query of Prometheus."""
    for path in PATHS:
        for panel in load(path)["panels"]:
            for target in panel.get("targets", ()):
                if "expr" in target:
                    yield path.stem, panel, target

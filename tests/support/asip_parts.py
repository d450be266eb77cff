"""The parts of the experiment asip on this machine: simulated board, bridge, Python client, broker, controller."""

import json
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from looplab.experiments.asip.board import BOARDS
from looplab.experiments.asip.oscilloscope import Oscilloscope
from support.board import Board
from support.containers import copy_out, own_image
from support.parts import HOST, Broker, Child, python, starter
from support.ports import free_port
from support.waiting import until

# In the robot's image.
ASIP_FILES = (
    "/usr/local/bin/robot", "/usr/share/looplab/asip-mega.hex", "/usr/share/looplab/asip-uno.hex",
    "/usr/share/looplab/generator.hex",
)  # fmt: skip


@pytest.fixture(scope="session")
def asip_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the board program and of the ASIP firmwares, copied out of the lab's image."""
    folder = tmp_path_factory.mktemp("asip")
    copy_out(own_image("robot"), folder, *ASIP_FILES)
    return folder


class AsipBoard(Board):
    """The board of asip, wired as in compose/experiments/asip."""

    def __init__(
        self, files: Path, folder: Path, board: str = "uno", *options: str, wired: bool = True, link: Path | None = None
    ) -> None:
        self.board = BOARDS[board]
        self.address = f"{HOST}:{free_port()}"
        pins = {number: pin.name for number, pin in self.board.pins.items()}
        wire = ["--wire", f"{pins[13]}:{pins[4]}"] if wired else []
        self.link = link or folder / f"{board}-{free_port()}"
        # That of a board that was killed.
        self.link.unlink(missing_ok=True)
        super().__init__(
            files, folder, f"asip-{board}.hex", "--pty", str(self.link), "--processor", self.board.processor,
            "--statistics", self.address, "--adapter", "none", "--boot-ms", "200", *wire, "--generator", pins[2],
            "--scope", f"{pins[2]},{pins[13]}", *options,
        )  # fmt: skip
        self.scope = Oscilloscope(self.address)


class AsipParts:
    """Board, broker, bridge and client; `variables` go to all of them."""

    def __init__(self, files: Path, folder: Path, board: str = "mega", **variables: str) -> None:
        self.folder, self._ending = folder, ExitStack()
        self._start = starter(folder, self._ending)
        adapter = ("--adapter", variables.get("ADAPTER", "none"))
        self._start_board = partial(AsipBoard, files, folder, board, *adapter)
        self.board = self._ending.enter_context(closing(self._start_board()))
        self.broker = Broker(folder)
        self._ending.callback(self.broker.kill)
        self.bridge_port, self.worker_port = free_port(), free_port()
        self._variables = {"FIDELITY": "corrected", "BOARD": board, **variables}
        self.bridge = self.start_bridge()
        own = {**self._variables, "WORKER_PORT": str(self.worker_port)}
        self.worker = self._start(python("looplab.experiments.asip.worker"), **own)
        until(lambda: "waits" in self.worker.said(), f"the client: {self.worker.said()}")

    @property
    def addresses(self) -> dict[str, str]:
        """Where a client finds the board, by transport."""
        return {
            "serial": self.board.device,
            "tcp": f"{HOST}:{self.bridge_port}",
            "mqtt": f"{HOST}:{self.broker.port}/asip/board",
        }

    def start_bridge(self) -> Child:
        variables = {
            **self._variables, "ASIP_DEVICE": str(self.board.link), "BROKER_HOST": HOST,
            "BROKER_PORT": str(self.broker.port), "BRIDGE_PORT": str(self.bridge_port),
        }  # fmt: skip
        child = self._start(python("looplab.experiments.asip.bridge"), **variables)
        until(lambda: "waits" in child.said(), f"the bridge: {child.said()}")
        return child

    def plug_in(self) -> None:
        """Connect the board again after `board.kill`, at the same name."""
        self.board = self._ending.enter_context(closing(self._start_board(link=self.board.link)))

    def run(self, **variables: str) -> tuple[int, dict[str, Any]]:
        """Have the controller run; return its exit code and run.json, {} where it stored none."""
        results = self.folder / "results"
        results.mkdir(exist_ok=True)
        settings = {
            "RESULTS_DIR": str(results), "ASIP_BOARD": self.board.address, "ASIP_PYTHON": f"{HOST}:{self.worker_port}",
            "LANGUAGES": "python", "PARTS_TIMEOUT_S": "5", "TREATMENTS_URL": f"http://{HOST}:9/facts",
            **{f"ASIP_{name.upper()}": address for name, address in self.addresses.items()},
        }  # fmt: skip
        child = self._start(python("looplab.experiments", "asip"), **{**self._variables, **settings, **variables})
        code = child.process.wait(300)
        stored = sorted(results.glob("*/run.json"))
        return code, json.loads(stored[-1].read_text()) if stored else {}

    def close(self) -> None:
        self._ending.close()

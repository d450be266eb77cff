"""The proxy in a process of its own, so that neither side's work delays the other's."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from looplab.errors import EXIT_MACHINE, LabError
from support.mqtt_proxy.proxy import Address
from support.mqtt_proxy.rules import Rule
from support.mqtt_proxy.truth import Truth
from support.places import ROOT

READY_WORD = "listening on"
START_LIMIT_S = 20.0
STOP_LIMIT_S = 20.0


class ImpairmentProxy:
    """Runs `python -m support.mqtt_proxy` for as long as a `with` block lasts.

    Inside the block `host` and `port` are where clients connect; after it `truth` is the ledger.
    """

    def __init__(self, to: Address, rules: Sequence[Rule] = (), listen: Address = ("127.0.0.1", 0)) -> None:
        self.to = to
        self.rules = list(rules)
        self.host, self.port = listen
        self._folder = tempfile.TemporaryDirectory(prefix="looplab-impairment-")
        self._process: subprocess.Popen[bytes] | None = None
        self._truth: Truth | None = None

    @property
    def truth(self) -> Truth:
        if self._truth is None:
            raise LabError("the proxy has no ledger yet", "leave its `with` block or call stop() first")
        return self._truth

    def start(self) -> ImpairmentProxy:
        rules_path = Path(self._folder.name, "rules.json")
        rules_path.write_text(json.dumps([rule.to_dict() for rule in self.rules]), encoding="utf-8")
        with self._errors_path.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "support.mqtt_proxy"),
                    *("--listen", f"{self.host}:{self.port}", "--to", f"{self.to[0]}:{self.to[1]}"),
                    *("--rules", str(rules_path), "--ledger", str(self._ledger_path)),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
            )
        try:
            self.port = self._wait_until_ready(self._process)
        except BaseException:
            self._process.kill()
            self._end(self._process)
            self._folder.cleanup()
            raise
        return self

    def stop(self) -> Truth:
        """Ends the process and reads its ledger; a second call gives the same."""
        if self._truth is None:
            if self._process is None:
                raise LabError("the proxy was never started", "enter its `with` block or call start() first")
            self._process.send_signal(signal.SIGTERM)
            code = self._end(self._process)
            if code != 0:
                raise LabError(f"the proxy ended with exit code {code}", self._errors())
            self._truth = Truth.load(self._ledger_path)
            self._folder.cleanup()
        return self._truth

    def __enter__(self) -> ImpairmentProxy:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _ledger_path(self) -> Path:
        return Path(self._folder.name, "ledger.json")

    @property
    def _errors_path(self) -> Path:
        return Path(self._folder.name, "errors.txt")

    def _errors(self) -> str:
        return self._errors_path.read_text(encoding="utf-8", errors="replace").strip() or "no message"

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> int:
        """Reads the line that says on which port it listens."""
        assert process.stdout is not None
        line = b""
        deadline_s = time.monotonic() + START_LIMIT_S
        while not line.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            ready, _, _ = select.select([process.stdout], [], [], max(0, left_s))
            if not ready:
                message = f"the proxy is not ready after {START_LIMIT_S:.0f} s"
                raise LabError(message, "look for load on this machine", EXIT_MACHINE)
            part = os.read(process.stdout.fileno(), 1024)
            if not part:
                code = process.wait(STOP_LIMIT_S)
                raise LabError(f"the proxy did not start: {self._errors()}", "", code or EXIT_MACHINE)
            line += part
        return int(line.decode().rsplit(":", 1)[1])

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            if process.stdout:
                process.stdout.close()


def _environment() -> dict[str, str]:
    """This process's environment, with this package importable in the child."""
    source = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
    others = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (source, others)))}

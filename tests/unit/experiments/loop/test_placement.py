"""Parts on several hosts: each is read where it runs, and a load is judged on the host that has it.

Where the broker has TLS, the real service of another host answers by TLS alone.
"""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.parts import Child, python
from support.waiting import until

from looplab.experiments.loop import EXPERIMENT
from looplab.experiments.loop.treatments import judge_loads
from looplab.run import identities, placement
from looplab.system.json_service import Request, serve
from looplab.treatments.loads import loads
from looplab.treatments.scans import TOKEN, TreatmentsClient
from looplab.treatments.service import PORT

ROLES = [*EXPERIMENT.roles, *(load.role for load in loads().values())]
ME = identities.Readers(os.geteuid(), os.geteuid(), os.geteuid())
FLOOD = {name: setting.published for name, setting in loads()["flood"].settings.items()}


class Service:
    """A treatments service whose processes have the host's number; it keeps what it is asked."""

    def __init__(self, number: int, *running: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self._number, self._running = number, running
        self._server = serve("127.0.0.1", 0, {"POST /facts": self._answer}, "none")
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: Request) -> dict[str, Any]:
        self.asked.append(request.body)
        found = {"pid": self._number, "started_ticks": self._number, "cpu_ns": 0, "cpu_wait_ns": None, "cpus": [0]}
        roles = {
            name: {"before": [], "processes": [{**found, "argv": []}] if name in self._running else [], "refused": []}
            for name in request.body["roles"]
        }
        counted = {"published": 100, "published_clock_ns": 5} if "published_from" in request.body else {}
        return {"roles": roles, "clock_ns": self._number, "noise": [], "processors": {}, **counted}


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Service]]:
    monkeypatch.setenv("TOKENS", str(tmp_path))
    made = {"A": Service(1, "controller", "broker", "flood"), "B": Service(2, "broker", "flood", "stress")}
    monkeypatch.setenv("TREATMENTS_URL", f"http://{made['A'].address}/facts")
    monkeypatch.setenv("LAB_HOSTS", f"A=controller= B=broker,flood={made['B'].address}")
    yield made
    for one in made.values():
        one.close()


def scan() -> dict[str, Any]:
    found = placement.client_of(TreatmentsClient(ROLES)).scan({"broker": 90}, "elsewhere:8883")
    assert found is not None
    return dict(found)


def pids(found: dict[str, Any], role: str) -> list[int]:
    return [process["pid"] for process in found["roles"][role]["processes"]]


def test_each_role_is_read_on_its_host(services: dict[str, Service]) -> None:
    found = scan()
    assert (pids(found, "controller"), pids(found, "broker"), pids(found, "flood")) == ([1], [2], [2])
    assert (found["clock_ns"], found["published"]) == (1, 100)
    assert "published_from" not in services["A"].asked[0]
    assert services["B"].asked[0]["published_from"] == "broker:1883"
    assert services["B"].asked[0]["roles"]["broker"]["fifo"] == 90
    assert placement.document([None, found, found])["hosts"]["B"] == {"roles": ["broker", "flood"], "noise_floor": []}


def test_a_load_is_judged_on_each_host(services: dict[str, Service]) -> None:
    judged = {one.what: one for one in judge_loads("flood", FLOOD, [scan(), scan()])}
    assert judged["flood load on B"].verified
    assert not judged["flood load on A"].verified, "it runs where nobody placed it"
    assert judged["flood load on A"].wanted == "not running"
    assert not judged["stress load on B"].verified


def test_one_host_is_judged_as_before(services: dict[str, Service], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_HOSTS")
    one = TreatmentsClient(ROLES)
    assert placement.client_of(one) is one
    found = one.scan({})
    assert found is not None
    assert [load.what for load in judge_loads("none", {}, [found])] == ["stress load", "flood load"]
    assert placement.document([found]) == {}


class Host:
    """A real treatments service at a loopback address of its own, and a wire to it that is listened to."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        # It has one port, so each test takes another address.
        self.tls, self.identities = tls, folder / "identities"
        self.address = f"127.78.{os.getpid() % 250}.{2 + tls}"
        self.identities.mkdir()
        identities.make(self.identities, ME, addresses=[self.address])
        certificate = identities.certificate_of(self.address) if tls else ""
        settings = {"TOKENS": str(self.identities), "TREATMENTS_BIND": self.address}
        command = python("looplab.experiments.treatments")
        self.service = Child(command, folder / "log", {**settings, "TREATMENTS_CERTIFICATE": certificate})
        until(lambda: socket.create_connection((self.address, PORT)).close() is None, "the service")
        self.token = (self.identities / TOKEN).read_bytes()
        self.wire = bytearray()
        self._listener = socket.create_server((self.address, 0))
        self.port = self._listener.getsockname()[1]
        self.listen(self._listener)

    def listen(self, listener: socket.socket) -> None:
        threading.Thread(target=self._relay, args=[listener], daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.service.close()

    def _relay(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((self.address, PORT))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source: socket.socket, into: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.wire += data
                into.sendall(data)
            into.shutdown(socket.SHUT_WR)
        except OSError:
            pass


ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """As the controller on another host meets it; it is paired with the broker's listener by TLS or without."""
    tls = getattr(request, "param", True)
    made = Host(tmp_path, tls=tls)
    monkeypatch.setenv("TOKENS", str(made.identities))
    monkeypatch.setenv("BROKER_PAIRING", str(made.identities / ("" if tls else "plain") / "controller"))
    monkeypatch.setenv("LAB_HOSTS", f"B=controller,broker={made.address}:{made.port}")
    yield made
    made.close()


def fault() -> str:
    client = placement.client_of(TreatmentsClient(ROLES))
    assert client.scan({}) is None
    return client.fault


@ONLY_ROOT
@pytest.mark.parametrize("host", [True, False], indirect=True)
def test_the_token_is_on_the_wire_only_without_tls(host: Host) -> None:
    found = placement.client_of(TreatmentsClient(ROLES)).scan({})
    assert found is not None
    assert found["hosts"]["B"]["processors"]
    for word in (host.token, b"broker", b"processors"):
        assert (word in host.wire) == (not host.tls)


@ONLY_ROOT
def test_a_host_without_the_right_certificate_never_sees_the_token(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = os.environ["BROKER_PAIRING"]
    (tmp_path / "other").mkdir()
    identities.make(tmp_path / "other", ME)
    monkeypatch.setenv("BROKER_PAIRING", str(tmp_path / "other/controller"))
    why = fault()
    assert "CERTIFICATE_VERIFY_FAILED" in why
    assert "./lab down" in why
    monkeypatch.setenv("BROKER_PAIRING", right)
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        monkeypatch.setenv("LAB_HOSTS", f"B=controller,broker=127.0.0.1:{elsewhere.getsockname()[1]}")
        host.listen(elsewhere)
        assert "IP address mismatch" in fault()
    assert host.wire
    assert host.token not in host.wire
    assert host.service.said() == ""


@ONLY_ROOT
def test_a_client_without_tls_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PAIRING", str(host.identities / "plain/controller"))
    assert "does not answer" in fault()
    assert b"HTTP/1.1 " not in host.wire.replace(b"POST /facts HTTP/1.1", b"")
    assert host.service.said() == ""

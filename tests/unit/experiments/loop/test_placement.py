"""Parts on several hosts: each is read where it runs, and a load is judged on the host that has it.

Where the broker has TLS, the real service of another host answers by TLS alone.
"""

import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.parts import Child, python
from support.waiting import until

from looplab.experiments.loop import EXPERIMENT
from looplab.run import identities, placement
from looplab.system.json_client import Service
from looplab.treatments.loads import judge_loads, loads
from looplab.treatments.scans import TreatmentsClient
from looplab.treatments.service import PORT

ROLES = [*EXPERIMENT.roles, *(load.role for load in loads().values())]
ME = os.geteuid()
FLOOD = {name: setting.published for name, setting in loads()["flood"].settings.items()}


PLACES = "A=controller= B=broker,flood=b"
# What runs where; each process has the number of its host.
HOSTS = {
    "http://a/facts": (1, ("controller", "broker", "flood")),
    "http://b/facts": (2, ("broker", "flood", "stress")),
}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """What the treatments service of each host was asked last."""
    questions: dict[int, Any] = {}

    def ask(_service: Service, url: str, _method: str, question: dict[str, Any], token: str) -> dict[str, Any]:
        number, running = HOSTS[url]
        questions[number] = question
        found = {"pid": number, "started_ticks": number, "cpu_ns": 0, "cpu_wait_ns": None, "cpus": [0], "argv": []}
        roles = {
            name: {"before": [], "processes": [found] if name in running else [], "refused": []}
            for name in question["roles"]
        }
        counted = {"published": 100, "published_clock_ns": 5} if "published_from" in question else {}
        return {"roles": roles, "clock_ns": number, "noise": [], "processors": {}, **counted}

    monkeypatch.setattr(Service, "ask", ask)
    for name, value in (("TOKENS", tmp_path), ("TREATMENTS_URL", "http://a/facts"), ("LAB_HOSTS", PLACES)):
        monkeypatch.setenv(name, str(value))
    return questions


def scan() -> dict[str, Any]:
    found = placement.client_of(TreatmentsClient(ROLES)).scan({"broker": 90}, "elsewhere:8883")
    assert found is not None
    return dict(found)


def pids(found: dict[str, Any], role: str) -> list[int]:
    return [process["pid"] for process in found["roles"][role]["processes"]]


def test_each_role_is_read_on_its_host(asked: dict[int, Any]) -> None:
    found = scan()
    assert (pids(found, "controller"), pids(found, "broker"), pids(found, "flood")) == ([1], [2], [2])
    assert (found["clock_ns"], found["published"]) == (1, 100)
    assert "published_from" not in asked[1]
    assert asked[2]["published_from"] == "broker:1883"
    assert asked[2]["roles"]["broker"]["fifo"] == 90
    assert placement.document([None, found, found])["hosts"]["B"] == {"roles": ["broker", "flood"], "noise_floor": []}


@pytest.mark.usefixtures("asked")
def test_a_load_is_judged_on_each_host() -> None:
    judged = {one.what: one for one in judge_loads("flood", FLOOD, [scan(), scan()])}
    assert judged["flood load on B"].verified
    assert not judged["flood load on A"].verified, "it runs where nobody placed it"
    assert judged["flood load on A"].wanted == "not running"
    assert not judged["stress load on B"].verified


# It has one port, so each service takes another address.
NETWORK = f"127.78.{os.getpid() % 250}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("tls", [True, False])
def test_a_service_answers_who_is_paired_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    """A real treatments service as the controller on another host meets it, paired by TLS or without."""
    known, other, served = tmp_path / "identities", tmp_path / "other", f"{NETWORK}.2"
    for folder, addresses in ((known, [served]), (other, [])):
        folder.mkdir()
        identities.make(folder, ME, addresses=addresses)
    monkeypatch.setenv("TOKENS", str(known))

    def service(address: str) -> Child:
        certificate = identities.certificate_of(served) if tls else ""
        settings = {"TOKENS": str(known), "TREATMENTS_BIND": address, "TREATMENTS_CERTIFICATE": certificate}
        child = Child(python("looplab.experiments.treatments"), tmp_path / address, settings)
        until(lambda: socket.create_connection((address, PORT)).close() is None, "the service")
        return child

    def ask(address: str, pairing: Path) -> tuple[Any, str]:
        monkeypatch.setenv("BROKER_PAIRING", str(pairing / "controller"))
        monkeypatch.setenv("LAB_HOSTS", f"B=controller,broker={address}:{PORT}")
        client = placement.client_of(TreatmentsClient(ROLES))
        return client.scan({}), client.fault

    paired, unpaired = (known, known / "plain") if tls else (known / "plain", known)
    with closing(service(served)) as one, closing(service(f"{NETWORK}.3")):
        found, _ = ask(served, paired)
        assert found["hosts"]["B"]["processors"]
        found, why = ask(served, unpaired)
        assert (found, "does not answer" in why) == (None, True)
        if tls:
            # The token follows the handshake, which fails.
            found, why = ask(served, other)
            assert (found, "CERTIFICATE_VERIFY_FAILED" in why, "./lab down" in why) == (None, True, True)
            found, why = ask(f"{NETWORK}.3", paired)
            assert (found, "IP address mismatch" in why) == (None, True)
        assert one.said() == ""

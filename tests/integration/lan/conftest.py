"""A broker for the LAN, and parts of the lab beside it; each is ended by its id."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.lan_broker import LanBroker, Visit, make_identities, visitor
from support.parts import HOST, Child, Listener, free_port

StartChild = Callable[..., Child]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Identities; each broker gets a copy, as making them takes a tenth of a second."""
    folder = tmp_path_factory.mktemp("identities")
    make_identities(folder)
    return folder


@pytest.fixture
def lan(tmp_path: Path, made: Path, at_end: contextlib.ExitStack) -> LanBroker:
    """Runs, with identities that it may change."""
    return at_end.enter_context(contextlib.closing(LanBroker(tmp_path, made)))


@pytest.fixture
def insider(lan: LanBroker, at_end: contextlib.ExitStack) -> Listener:
    """Somebody on the plain listener, within the Docker network, where everything passes; hears everything."""
    return at_end.enter_context(contextlib.closing(Listener(lan.port)))


@pytest.fixture
def visit(lan: LanBroker, at_end: contextlib.ExitStack) -> Visit:
    """Return a function that lets somebody of the lab's identities in."""

    def let_in(who: str) -> Listener:
        known = lan.pairing(who)
        found = at_end.enter_context(contextlib.closing(visitor(lan.tls_port, known, known.user, known.password)))
        assert found.verdict == "Success"
        return found

    return let_in


@pytest.fixture
def start_bridge(start_child: StartChild) -> StartChild:
    """A bridge with no robot; `BROKER_PAIRING` says where the broker is."""

    def start(**variables: str) -> Child:
        settings = {"SERIAL_URL": f"socket://{HOST}:{free_port()}", "FIDELITY": "corrected"}
        return start_child("looplab.experiments.loop.bridge.program", **{**settings, **variables})

    return start

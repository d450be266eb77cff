"""Who may join the device workers of a run."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ports import free_port
from support.waiting import until

from looplab.experiments.twin import device_workers
from looplab.experiments.twin.device_workers import MOST_STRANGERS, DeviceWorkers


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceWorkers]:
    (tmp_path / "device-workers").write_text("token")
    monkeypatch.setenv("TOKENS", str(tmp_path))
    monkeypatch.setenv("DEVICE_PORT", str(free_port()))
    monkeypatch.setattr(device_workers, "FIRST_S", 2.0)
    workers = DeviceWorkers(1)
    yield workers
    workers.close()


def join(line: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", device_workers.port()), timeout=20)
    connection.sendall(line)
    return connection


def test_silent_strangers_are_few_and_keep_nobody_out(workers: DeviceWorkers) -> None:
    before = threading.active_count()
    strangers = [join() for _ in range(2 * MOST_STRANGERS)]
    # Those beyond the limit are closed at once, the others after a time.
    assert strangers[-1].recv(1) == b""
    assert threading.active_count() <= before + MOST_STRANGERS
    assert all(one.recv(1) == b"" for one in strangers)
    worker = join(b"token b\n")
    until(lambda: [one.host for one in workers.present()] == ["b"], "the worker joins")
    for one in (*strangers, worker):
        one.close()

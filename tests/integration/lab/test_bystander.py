"""The bystander of `./lab doctor` and of the benches, as a process: a stall that is made is in its sample."""

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from support.waiting import until

from looplab.lab.machine import stalls
from looplab.lab.machine.stalls import BYSTANDER, Bystander


@pytest.fixture
def bystander() -> Iterator[Bystander]:
    found = Bystander([sys.executable, "-uc", BYSTANDER])
    until(lambda: found._seen, "its first wake-up")
    yield found
    found.stop()


def stop(bystander: Bystander, after_s: float, for_s: float) -> None:
    """Stop the process for a while, some seconds from now."""
    stop_for_good(bystander, after_s)
    threading.Timer(after_s + for_s, os.kill, (bystander._process.pid, signal.SIGCONT)).start()


def stop_for_good(bystander: Bystander, after_s: float) -> None:
    threading.Timer(after_s, os.kill, (bystander._process.pid, signal.SIGSTOP)).start()


def test_a_stall_is_one_late_wake_up(bystander: Bystander) -> None:
    stop(bystander, after_s=0.5, for_s=0.4)
    found = bystander.sample(2.0)
    assert found is not None
    assert found.max_ms >= 375
    # One of some 80: those that were missed meanwhile do not count as late ones.
    assert found.p95_ms < 375


def test_a_stall_that_outlasts_the_sample_is_in_it_and_not_in_the_next(bystander: Bystander) -> None:
    stop(bystander, after_s=0.8, for_s=1.2)
    found, after = bystander.sample(1.0), bystander.sample(0.5)
    assert found is not None
    assert after is not None
    assert found.max_ms >= 1175 > after.max_ms


def test_a_bystander_that_does_not_wake_again_has_no_sample(
    bystander: Bystander, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "STUCK_S", 1)
    stop_for_good(bystander, after_s=0.2)
    assert bystander.sample(0.5) is None
    bystander._process.kill()
    assert bystander.sample(0.1) is None

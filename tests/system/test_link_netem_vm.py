"""Kernel netem and NFQUEUE under Debian's own kernel in a virtual machine: the checks of support/link_checks.py.

Some minutes of software emulation: only where LAB_NETEM_VM=1 says so.
"""

from typing import Any

import pytest
from support import link_vm, virtual_machine
from support.containers import own_image
from support.link_checks import CHECKS

BACK_ENDS = ["netem", "nfqueue"]
PROBES = 1000

pytestmark = [pytest.mark.flag("LAB_NETEM_VM"), pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, str], dict[str, Any]]:
    """By (back end, check)."""
    image = own_image("link")
    found = virtual_machine.whole([image], lambda: link_vm.run(image, BACK_ENDS, PROBES))
    return {(backend, result["check"]): result for backend, result in found}


@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize("check", CHECKS)
def test_both_back_ends_do_what_they_are_told(
    results: dict[tuple[str, str], dict[str, Any]], backend: str, check: str
) -> None:
    assert results[backend, check]["good"], results[backend, check]["attempts"]


@pytest.mark.parametrize("ending", ["removed", "killed", "removed again"])
def test_netem_leaves_no_queue_behind(results: dict[tuple[str, str], dict[str, Any]], ending: str) -> None:
    assert "qdisc" in results["netem", ending]["left"]
    assert "netem" not in results["netem", ending]["left"]


def test_netem_delays_nothing_once_its_container_was_killed(results: dict[tuple[str, str], Any]) -> None:
    checks = ("delayed", "killed with its guard", "started again")
    delayed, killed, again = (results["netem", check]["trip_ms"] for check in checks)
    there_and_back_ms = 2 * link_vm.DELAY_MS
    assert there_and_back_ms <= delayed < 1.25 * there_and_back_ms
    assert killed < link_vm.DELAY_MS / 2
    assert there_and_back_ms <= again < 1.25 * there_and_back_ms

"""The emulator against theory, on real probes between two containers; what is checked is in link_checks.py."""

import json

import pytest
from support.link_checks import CHECKS
from support.link_pair import PEER, SCRIPT, Pair, in_container

PROBES = "1600"


@pytest.fixture(scope="module")
def emulator(pair: Pair) -> str:
    return pair.emulator()


@pytest.mark.parametrize("check", CHECKS)
def test_a_link_does_what_it_is_told(emulator: str, check: str) -> None:
    result = json.loads(in_container(emulator, SCRIPT.read_text(), PEER, "--only", check, "--probes", PROBES))
    print(result)
    assert result["good"], result["attempts"]

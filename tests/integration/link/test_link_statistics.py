"""The emulator against theory, on real probes between two containers; what is checked is in link_checks.py."""

import json
from threading import Timer

import pytest
from support.link_checks import CHECKS
from support.link_pair import PEER, SCRIPT, Pair, in_container, prioritise

PROBES = "1600"


@pytest.fixture(scope="module")
def emulator(pair: Pair) -> str:
    prioritise(pair.responder())
    return pair.ready_emulator(real_time=True)


@pytest.mark.parametrize("check", CHECKS)
def test_a_link_does_what_it_is_told(emulator: str, check: str) -> None:
    # The prober, once it runs.
    late = Timer(1.0, prioritise, (emulator,))
    late.start()
    said = in_container(emulator, SCRIPT.read_text(), PEER, "--only", check, "--probes", PROBES)
    late.cancel()
    result = json.loads(said)
    print(result)
    assert result["good"], result["attempts"]

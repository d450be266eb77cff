"""A student's controller and bridge in the place of the lab's: the files that the handouts give."""

import pytest
from support.e2e_lab import Lab
from support.run_checks import treatments

CONTROLLER = {"CLIENTS": "own", "OWN_CLIENT": "docs/exercises/write-a-controller/controller.py"}
BRIDGE = {"OWN_BRIDGE": "docs/exercises/write-the-bridge/bridge.py"}


@pytest.mark.parametrize(
    ("scenario", "own", "what"),
    [
        ("scenario1", CONTROLLER, "own client's requests"),
        ("scenario0", BRIDGE, "own bridge's answers"),
    ],
)
def test_a_program_of_ones_own_is_measured(lab: Lab, scenario: str, own: dict[str, str], what: str) -> None:
    done = lab.run("run", scenario, "--quick", "--messages", "50", "--json", "--busy", **own)
    run = lab.stored(done.stdout)
    assert run["valid"], run["invalid_because"]
    assert treatments(run)[what]["found"] == "all of them"
    assert [(cell["sent"], cell["answered"]) for cell in run["cells"]] == [(50, 50)]
    assert run["cells"][0]["O_us"]["p50"] > 0

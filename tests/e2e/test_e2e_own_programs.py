"""Programs in the place of the lab's: a student's controller and bridge, as files and images, and the thesis's own."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker, own_image
from support.e2e_lab import Lab
from support.places import ROOT
from support.run_checks import treatments

CONTROLLER = {"CLIENTS": "own", "OWN_CLIENT": "docs/exercises/write-a-controller/controller.py"}
BRIDGE = {"OWN_BRIDGE": "docs/exercises/write-the-bridge/bridge.py"}
# One holds a program without any library, the other has a Python of its own.
NOTHING_ELSE, PYTHON = "looplab-test/own-nothing-else", "looplab-test/own-python"
C_IMAGE = {"CLIENTS": "own", "OWN_IMAGE": NOTHING_ELSE, "OWN_CLIENT": "/client"}
BRIDGE_IMAGE = {"OWN_IMAGE": PYTHON, "OWN_BRIDGE": "python3 /app/bridge.py"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, session_lab: Lab) -> Iterator[None]:
    def build(name: str, lines: str, folder: Path) -> None:
        (folder / "Dockerfile").write_text(lines)
        docker("build", "--quiet", "--tag", name, str(folder))

    folder = tmp_path_factory.mktemp("images")
    source = ROOT / "tests/e2e/own_client.c"
    subprocess.run(["cc", "-static", "-o", str(folder / "client"), str(source)], capture_output=True, check=True)
    shutil.copy(ROOT / BRIDGE["OWN_BRIDGE"], folder)
    build(NOTHING_ELSE, "FROM scratch\nCOPY client /client\n", folder)
    build(PYTHON, f"FROM {own_image('controller')}\nCOPY *.py /app/\n", folder)
    yield
    docker("rmi", "--force", NOTHING_ELSE, PYTHON)


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize(
    ("scenario", "own", "part", "what"),
    [
        ("scenario1", CONTROLLER, "controller", "own client's requests"),
        ("scenario1", C_IMAGE, "controller", "own client's requests"),
        ("scenario0", BRIDGE, "bridge", "own bridge's answers"),
        ("scenario0", BRIDGE_IMAGE, "bridge", "own bridge's answers"),
    ],
)
def test_a_program_of_ones_own_is_measured(lab: Lab, scenario: str, own: dict[str, str], part: str, what: str) -> None:
    # Beside other tests answers come late, and a burst of two would be one.
    done = lab.run("run", scenario, "--quick", "--messages", "50", "--json", ROBOT_FRAMING="line", **own)
    assert done.returncode == 0, done.stderr
    run = lab.stored(done.stdout)
    assert run["valid"], run["invalid_because"]
    assert treatments(run)[what]["found"] == "all of them"
    assert [(cell["sent"], cell["answered"]) for cell in run["cells"]] == [(50, 50)]
    assert run["cells"][0]["O_us"]["p50"] > 0
    # The bridge is their very image; the controller's holds it, and is none of this checkout alone.
    image = run["environment"]["images"][part]
    assert image["own"] == ("OWN_IMAGE" not in own)
    if own is BRIDGE_IMAGE:
        assert image["id"] == docker("image", "inspect", "--format", "{{.Id}}", PYTHON)


@pytest.mark.usefixtures("images")
def test_an_image_without_the_program_is_named(lab: Lab) -> None:
    """A program that ends at once: test_e2e_brokers.py; one that keeps no agreement: integration/experiments/loop."""
    done = lab.run("run", "scenario0", "--quick", code=2, **{**C_IMAGE, "OWN_CLIENT": "/no-such"})
    assert "OWN_CLIENT=/no-such does not start in OWN_IMAGE=" in done.stderr


def test_printed_clients_are_found_as_printed(lab: Lab) -> None:
    """As a person types them: programs of their own, through the host's published port."""
    done = lab.run("run", "scenario1", "--quick", "--messages", "50", "--qos", "2", "--fidelity", "printed", "--json")
    run = lab.stored(done.stdout)
    assert run["valid"], run["invalid_because"]
    found = {what: treatment["found"] for what, treatment in treatments(run).items()}
    # A process of each for each repetition, and what the broker sees is the engine's proxy, or the kernel's own way.
    assert found["client processes"] == "2"
    assert found["clients path to the broker"].startswith("port")
    assert found["clients' threads"] == "2 each"
    assert (found["robot framing"], found["answer pairing"]) == ("raw", "count")
    # Python 2.7, or 3 with a note where the image has none.
    clients = treatments(run)["clients' interpreter"]
    assert clients["found"].startswith("Python 2.7") or clients["note"]
    for cell in run["cells"]:
        assert cell["client_O_us"]["n"] > 0
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]

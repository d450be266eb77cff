"""DeviceHive on the engine, with a double of its published images: the lab's own image, its commands, Redis itself."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker, own_image
from support.e2e_lab import PROJECT, Lab
from support.places import ROOT

from looplab.experiments.middleware.host import programs
from looplab.experiments.middleware.systems import load

pytestmark = pytest.mark.flag("LAB_MIDDLEWARE_FAULTS")
FOLDER = ROOT / "src/looplab/experiments/middleware/systems/devicehive"
SERVICES = ("auth", "backend", "frontend")
# As the scripts of Kafka: they write their logs to LOG_DIR, and take connections.
LISTENS = """#!/bin/sh -e
mkdir -p "$LOG_DIR" && touch "$LOG_DIR/log"
exec python3 -c 'import socket, time; kept = socket.create_server(("", {port})); time.sleep(9999)'
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image of the lab's own Dockerfile, with doubles in place of the published ones and of the Java runtime."""
    folder = tmp_path_factory.mktemp("devicehive")
    shutil.copy(ROOT / "tests/support/devicehive_double.py", folder / "java")
    for name, port in (("kafka", 9092), ("zookeeper", 2181)):
        (folder / f"{name}-server-start.sh").write_text(LISTENS.format(port=port))
    for name in SERVICES:
        (folder / f"devicehive-{name}-4.1.0-boot.jar").touch()
    for path in folder.iterdir():
        path.chmod(0o755)
    tag = f"{PROJECT}-devicehive"
    text = (FOLDER / "Dockerfile").read_text()
    begin, end = text.index("RUN apt-get"), text.index("COPY --from=auth")
    # What apt installs is Debian's; the rest of the Dockerfile is as it stands.
    text = text[:begin] + "COPY java /usr/local/bin/\n" + text[end:]
    for name in SERVICES:
        made = f"FROM scratch AS {name}\nCOPY devicehive-{name}-4.1.0-boot.jar /opt/devicehive/\n"
        text = text.replace(f"FROM devicehive/devicehive-{name}:${{DEVICEHIVE}} AS {name}\n", made)
    kafka = "FROM scratch AS kafka\nCOPY kafka-server-start.sh zookeeper-server-start.sh /opt/bitnami/kafka/bin/\n"
    text = text.replace("FROM devicehive/devicehive-kafka:${DEVICEHIVE} AS kafka\n", kafka)
    assert "devicehive/devicehive-" not in text
    (folder / "Dockerfile").write_text(text)
    docker("build", "-t", tag, "--build-arg", f"MIDDLEWARE_BASE={own_image('magistrala')}", str(folder), timeout_s=300)
    yield tag
    docker("rmi", "--force", tag)


def variables(image: str, **more: str) -> dict[str, str]:
    own = FOLDER.relative_to(ROOT) / "compose.yaml"
    return {"MIDDLEWARE": "devicehive", "MIDDLEWARE_IMAGE": image, "COMPOSE_FILE": f"compose.yaml:{own}", **more}


@pytest.mark.parametrize("fidelity", ["thesis", "corrected"])
def test_devicehive_answers_and_is_read_back(lab: Lab, image: str, fidelity: str) -> None:
    words = (
        f"run middleware --cores 1 --where container --devices 20 --seconds 12 --repetitions 1 --fidelity {fidelity}"
    )
    done = lab.run(*words.split(), "--json", code=0, **variables(image, WARM_UP_S="2"))
    (run,) = json.loads(done.stdout)["runs"]
    [cell] = run["cells"]
    assert (cell["requests"], cell["succeeded"]) == (240, 240), cell["failed_by"]
    assert (cell["stored"], cell["lost"], cell["duplicates"]) == (240, 0, 0)
    [trial] = cell["by_repetition"]
    assert {"backend", "auth", "frontend"} <= set(trial["cpu_s"])
    assert run["parameters"]["system"] == "devicehive"


def test_the_image_has_its_user_and_a_folder_to_write(image: str) -> None:
    script = (
        "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_name); open('/data/x', 'w'); os.stat('/opt/devicehive')"
    )
    done = subprocess.run(
        ["docker", "run", "--rm", "--read-only", "--entrypoint", "python3", image, "-c", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "middleware"), done.stderr


def test_bare_metal_gets_its_programs_out_of_the_image(image: str, tmp_path: Path) -> None:
    folder = programs(tmp_path, image, "devicehive")
    system = load("devicehive")
    programs_there = system.node(str(folder), dict.fromkeys(system.data, "127.0.0.1"), {"postgres": "", "tokens": ""})
    assert all(Path(one.command[-1]).is_file() for one in programs_there)

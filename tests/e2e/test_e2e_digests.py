"""A scenario from images that are pinned by digest, out of a registry: scripts/pin-images, then ./lab run.

Half a minute of packing and unpacking layers, so only with LAB_FROM_REGISTRY set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from containers import docker
from e2e_lab import Lab
from local_registry import LocalRegistry, serve_registry
from run_checks import check_run

from looplab.host.command import call
from looplab.host.pinning import images_to_pin

# Those that scenario 0 runs; Grafana has no stand-in where no registry can be reached.
RUN = ("MOSQUITTO_IMAGE", "PROMETHEUS_IMAGE")
pytestmark = pytest.mark.skipif(
    not os.environ.get("LAB_FROM_REGISTRY"), reason="takes a minute: LAB_FROM_REGISTRY=1 runs a scenario from pinned images"
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    yield from serve_registry(tmp_path_factory.mktemp("registry"))


def test_a_scenario_runs_from_digests(own_lab: Lab, registry: LocalRegistry) -> None:
    path = own_lab.root / ".env"
    text = path.read_text()
    upstream = {variable: reference for variable, reference in images_to_pin(text).items() if variable in RUN}
    for variable, reference in upstream.items():
        text = text.replace(f"{variable}={reference}", f"{variable}={registry.put(reference, reference)}")
    # The others stay as they are: this registry does not have them.
    pinnable = own_lab.root / "pinnable"
    pinnable.write_text("".join(line for line in text.splitlines(keepends=True) if line.split("=")[0] in RUN))
    pinned = call([str(own_lab.root / "scripts/pin-images"), str(pinnable)], timeout_s=300)
    assert pinned.good, pinned.stderr
    wanted = dict(line.split("=", 1) for line in pinnable.read_text().splitlines())
    assert [reference.partition("@sha256:")[0] for reference in wanted.values()] == [
        f"{registry.address}/{reference}" for reference in upstream.values()
    ]
    # Not from here: the run has to pull them.
    for reference in wanted.values():
        docker("rmi", reference.partition("@")[0])

    ran = own_lab.run("run", "scenario0", "--quick", "--messages", "25", **wanted)
    assert ran.returncode == 0, ran.stderr
    folder, run = own_lab.newest()
    check_run(folder, run)
    images = run["environment"]["images"]
    for variable, reference in wanted.items():
        assert images[variable]["reference"] == reference
        assert images[variable]["id"] == docker("image", "inspect", "--format", "{{.Id}}", upstream[variable])

"""rpi/: the Compose file hardened and complete, its settings all explained, the udev rule well formed."""

import re
from typing import Any

import pytest
import yaml
from support.places import ROOT

from looplab import __version__
from looplab.lab.commands.pair import SHARED

RPI = ROOT / "rpi"
COMPOSE: dict[str, Any] = yaml.safe_load((RPI / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
EXAMPLE = dict(
    line.split("=", 1) for line in (RPI / ".env.example").read_text().splitlines() if line and line[0] != "#"
)
# ttyUSB and ttyACM.
SERIAL_MAJORS = {"188", "166"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_the_least_it_needs(name: str) -> None:
    service = SERVICES[name]
    """Beside what tests/integration/lab/test_hardening.py asks of each service."""
    assert "cap_add" not in service
    assert service["pids_limit"] <= 256
    assert service["restart"] == "unless-stopped"
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])


def test_of_the_pis_devices_only_serial_ports_may_be_opened() -> None:
    rules = SERVICES["bridge"]["device_cgroup_rules"]
    assert {re.fullmatch(r"c ([0-9]+):\* rw", rule)[1] for rule in rules} == SERIAL_MAJORS  # type: ignore[index]
    assert "/dev:/dev:ro" in SERVICES["bridge"]["volumes"]


def test_every_setting_stands_in_the_example_and_none_besides() -> None:
    # `NAME:` without a value passes on what is set.
    used = set(re.findall(r"\$\{([A-Z_]+)|^ +([A-Z_]+):$", (RPI / "compose.yaml").read_text(), re.MULTILINE))
    used = {name or passed for name, passed in used}
    # Set by FIDELITY or the pairing file; each alone on purpose only.
    shared = set(SHARED) - {"FIDELITY"}
    assert used - set(EXAMPLE) == shared
    assert set(EXAMPLE) <= used


def test_the_example_says_what_the_file_does_without_it() -> None:
    defaults = dict(re.findall(r"\$\{([A-Z_]+):-([^}$]*)\}", (RPI / "compose.yaml").read_text()))
    assert EXAMPLE["LAB_TAG"] == __version__
    # Without a registry the image has a name of this machine alone.
    assert (EXAMPLE["LAB_REGISTRY"], defaults.pop("LAB_REGISTRY")) == ("", "localhost/")
    assert {name: EXAMPLE[name] for name in defaults if name in EXAMPLE} == {
        name: value for name, value in defaults.items() if name in EXAMPLE
    }


RULES = [line for line in (RPI / "99-looplab-robot.rules").read_text().splitlines() if line and line[0] != "#"]
RULE = re.compile(
    r'SUBSYSTEM=="tty", ATTRS\{idVendor\}=="[0-9a-f]{4}", ATTRS\{idProduct\}=="[0-9a-f]{4}", '
    r'SYMLINK\+="looplab-robot", GROUP="dialout", MODE="0660", ENV\{ID_MM_PORT_IGNORE\}="1"'
)


def test_each_udev_rule_names_one_adapter() -> None:
    assert all(RULE.fullmatch(rule) for rule in RULES)
    assert any('"1a86"' in rule and '"7523"' in rule for rule in RULES), "the CH340 of the mBot Ranger"
    assert len(set(RULES)) == len(RULES)

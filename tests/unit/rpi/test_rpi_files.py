"""rpi/: device rules of the Compose file."""

import re
from typing import Any

import yaml
from support.places import ROOT

# ttyUSB and ttyACM.
SERIAL_MAJORS = {"188", "166"}


def test_of_the_pis_devices_only_serial_ports_may_be_opened() -> None:
    bridge: dict[str, Any] = yaml.safe_load((ROOT / "rpi/compose.yaml").read_text())["services"]["bridge"]
    rules = [re.fullmatch(r"c ([0-9]+):\* rw", rule) for rule in bridge["device_cgroup_rules"]]
    assert {rule and rule[1] for rule in rules} == SERIAL_MAJORS
    assert "/dev:/dev:ro" in bridge["volumes"]

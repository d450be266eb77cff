"""asip with ROBOT=usb: a USB adapter, the kernel's own driver for it, and both languages over all three transports.

Some minutes of software emulation: only where LAB_USB_VM=1 says so. Not yet seen to its end: the one start,
beside other work on two processors, was cut off after nine minutes.
"""

from typing import Any

import pytest
from support import asip_vm, virtual_machine

from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import image_fact

pytestmark = [pytest.mark.flag("LAB_USB_VM"), pytest.mark.timeout(1800), pytest.mark.engine]


def test_a_board_on_usb_is_measured_over_every_transport_in_both_languages() -> None:
    virtual_machine.need_programs()
    absent = [name for name in asip_vm.images() if not find_engine().serves or image_fact(name) is None]
    if absent:
        pytest.fail(f"no Docker engine with {', '.join(absent)} answers here: run ./lab setup asip first")
    found = asip_vm.run()
    assert found, "the machine said nothing"
    assert found[-1] == ("end", {}), found
    results: dict[str, dict[str, Any]] = dict(found)
    assert results["adapter"]["driver"] == "ftdi_sio"
    assert results["adapter"]["latency_ms"] in range(1, 256)
    run = results["run"]
    assert results["exit_code"]["code"] == 0, run["invalid_because"]
    assert [(cell["language"], cell["transport"]) for cell in run["cells"]] == [
        (language, transport) for language in ("python", "java") for transport in ("serial", "tcp", "mqtt")
    ]
    for cell in run["cells"]:
        assert cell["answered"] == cell["tests"] == asip_vm.SETTINGS["MESSAGES"]
        assert cell["latency_us"]["min"] > cell["wire_us"], "nothing is faster than its wire"

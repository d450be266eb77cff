"""asip with ROBOT=usb: a USB adapter, the kernel's own driver for it, and both languages over all three transports.

Some minutes of software emulation: only where LAB_USB_VM=1 says so.
"""

from typing import Any

import pytest
from support import asip_vm, virtual_machine

pytestmark = [pytest.mark.flag("LAB_USB_VM"), pytest.mark.timeout(1800), pytest.mark.engine]


def test_a_board_on_usb_is_measured_over_every_transport() -> None:
    results: dict[str, dict[str, Any]] = dict(virtual_machine.whole(asip_vm.images(), asip_vm.run))
    assert results["adapter"]["driver"] == "ftdi_sio"
    assert results["adapter"]["latency_ms"] == asip_vm.LATENCY_MS
    run = results["run"]
    assert results["exit_code"]["code"] == 0, run["invalid_because"]
    assert [(cell["language"], cell["transport"]) for cell in run["cells"]] == [
        (language, transport) for language in ("python", "java") for transport in ("serial", "tcp", "mqtt")
    ]
    for cell in run["cells"]:
        assert cell["answered"] == cell["tests"] == asip_vm.SETTINGS["MESSAGES"]
        assert cell["latency_us"]["min"] > cell["wire_us"], "nothing is faster than its wire"

"""asip with ROBOT=usb: a USB adapter, the kernel's own driver for it, and both languages over all three transports.

Some minutes of software emulation: only where LAB_USB_VM=1 says so.
"""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from support import virtual_machine
from support.asip_parts import ASIP_FILES, AsipBoard
from support.containers import copy_out, own_image

KERNEL = "linux-image-amd64"
DEVICE = "/dev/ttyUSB0"
# QEMU passes no DTR line to the board: opening the port resets nothing. Its adapter has 0 until somebody sets it.
LATENCY_MS = 1
# The machine's processor is emulated, and other work may share the host's.
SETTINGS = {
    "SCENARIO": "asip", "ROBOT": "usb", "FIDELITY": "corrected", "MESSAGES": 10, "WARMUP_MESSAGES": 10,
    "INTERVAL_MS": 200, "DEADLINE_MS": 5000, "PARTS_TIMEOUT_S": 600,
}  # fmt: skip
HOSTS = "127.0.0.1 localhost broker treatments-control asip-bridge asip-python asip-java\n"
BROKER = "listener 1883\nallow_anonymous true\nset_tcp_nodelay true\n"
INIT = """
for module in xhci_pci ftdi_sio; do busybox modprobe $module; done
for second in $(busybox seq 60); do [ -e @DEVICE@ ] && break; busybox sleep 1; done
port=/sys/bus/usb-serial/devices/ttyUSB0
echo @LATENCY_MS@ >$port/latency_timer
# QEMU keeps what the board said at its start: with that to read, a first client in Java got no answer, twice of three.
python3 -c 'import serial, time; port = serial.Serial("@DEVICE@", 57600); time.sleep(2); port.reset_input_buffer()'
echo "RESULT adapter {\\"driver\\": \\"$(busybox basename $(busybox readlink $port/driver))\\",\
 \\"latency_ms\\": $(busybox cat $port/latency_timer)}"
busybox chroot /broker mosquitto -c /mosquitto/config/mosquitto.conf >/run/mosquitto.log 2>&1 &
export @SETTINGS@ RESULTS_DIR=/results ASIP_DEVICE=@DEVICE@ ASIP_SERIAL=@DEVICE@ ASIP_JAVA=asip-java:5101
# Its probe of stalls has real-time priority: on one emulated processor it would leave little to the others.
busybox taskset 2 python3 -m looplab.experiments.treatments >/run/treatments.log 2>&1 &
python3 -m looplab.experiments.asip.bridge >/run/bridge.log 2>&1 &
python3 -m looplab.experiments.asip.worker >/run/python.log 2>&1 &
# As Compose: a worker whose port hung up ends, to be started again.
(while :; do WORKER_PORT=5101 start; done) >/run/java.log 2>&1 &
python3 -m looplab.experiments asip
echo "RESULT exit_code {\\"code\\": $?}"
"""


def images() -> list[str]:
    return virtual_machine.images_of_experiment("controller", "asip_java")


def run() -> virtual_machine.Results:
    """(what, document): the adapter as the kernel has it, the experiment's exit code, its run.json."""
    settings = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
    values = {"SETTINGS": settings, "DEVICE": DEVICE, "LATENCY_MS": LATENCY_MS}
    with tempfile.TemporaryDirectory(prefix="looplab-vm-") as name:
        folder = Path(name)
        copy_out(own_image("robot"), folder, *ASIP_FILES)
        board = AsipBoard(folder, folder, "uno", "--boot-ms", "0")
        words = (
            *("-device", "qemu-xhci", "-chardev", f"serial,id=board,path={board.device}"),
            *("-device", "usb-serial,chardev=board", "-smp", "2"),
        )
        hardware = virtual_machine.Hardware(KERNEL, (*virtual_machine.MODULES, "drivers/usb"), words)
        try:
            return virtual_machine.run_experiment(images(), INIT, values, HOSTS, BROKER, hardware)
        finally:
            board.close()


pytestmark = [pytest.mark.flag("LAB_USB_VM"), pytest.mark.timeout(1800), pytest.mark.engine]


def test_a_board_on_usb_is_measured_over_every_transport() -> None:
    results: dict[str, dict[str, Any]] = dict(virtual_machine.whole(images(), run))
    assert results["adapter"]["driver"] == "ftdi_sio"
    assert results["adapter"]["latency_ms"] == LATENCY_MS
    document = results["run"]
    assert results["exit_code"]["code"] == 0, document["invalid_because"]
    assert [(cell["language"], cell["transport"]) for cell in document["cells"]] == [
        (language, transport) for language in ("python", "java") for transport in ("serial", "tcp", "mqtt")
    ]
    for cell in document["cells"]:
        assert cell["answered"] == cell["tests"] == SETTINGS["MESSAGES"]
        assert cell["latency_us"]["min"] > cell["wire_us"], "nothing is faster than its wire"

"""Opens the robot's port: a device of this machine, or anything else that pyserial has a URL for."""

import contextlib
import errno
import fcntl
import glob
import os
import socket
import termios
from collections.abc import Sequence
from pathlib import Path

import serial

from looplab.errors import LabError

BAUD_RATE = 57600
WRITE_TIMEOUT_S = 1.0
# Device numbers: Linux, Documentation/admin-guide/devices.txt.
PSEUDO_TERMINALS = range(136, 144)
# The kernel's names for serial ports on USB.
USB_PORTS = ("/dev/ttyUSB*", "/dev/ttyACM*")

_WORDS = {
    errno.ENOENT: "no such device: is the robot plugged in and switched on?",
    errno.EACCES: "permission denied: ROBOT_GROUP must be the number of the device's group (stat -c %g {path})",
    errno.EPERM: "the engine does not let the container use it: see device_cgroup_rules in compose/robot.usb.yaml",
    errno.EBUSY: "another program has it (`fuser {path}` names it)",
    errno.EAGAIN: "another program has it (`fuser {path}` names it)",
}


def open_port(url: str, others: Sequence[str] = USB_PORTS, *, low_latency: bool = False) -> serial.SerialBase:
    """Return a non-blocking port that no other program can open. A path may hold wildcards that one device matches.

    With `low_latency` an FTDI adapter holds no bytes back. Raises LabError; of a device that is not there it names
    what matches `others`.
    """
    if not url.startswith("/"):
        return _open_url(url)
    path = _single(url)
    try:
        port = serial.Serial(path, BAUD_RATE, timeout=0, write_timeout=WRITE_TIMEOUT_S, exclusive=True)
        # A pseudo-terminal would still refuse others when this process has ended, the next bridge among them.
        if os.major(os.fstat(port.fileno()).st_rdev) not in PSEUDO_TERMINALS:
            refuse_others(port.fileno())
        # Set either way: the driver keeps what an earlier run has set. Only FTDI's knows it.
        with contextlib.suppress(ValueError, OSError):
            port.set_low_latency_mode(low_latency)
        return port
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or 0
        words = _WORDS.get(number, str(error)).format(path=path)
        raise LabError(f"{path}: {words}{_ports_there(others) if number == errno.ENOENT else ''}") from error


def refuse_others(port: int) -> None:
    """Have the kernel open an open port for nobody else but root.

    The lock of `exclusive` keeps out who asks for it; a second reader without it would take bytes in silence.
    """
    fcntl.ioctl(port, termios.TIOCEXCL)


def latency_timer_ms(path: str, devices: Path = Path("/sys/class/tty")) -> int | None:
    """Return how long the adapter of an open port may hold bytes back, None if its driver has no such timer."""
    with contextlib.suppress(OSError, ValueError):
        return int((devices / Path(path).resolve().name / "device/latency_timer").read_text())
    return None


def _open_url(url: str) -> serial.SerialBase:
    # rfc2217:// has no time-out for writing and refuses to open with one.
    write_timeout_s = None if url.startswith("rfc2217:") else WRITE_TIMEOUT_S
    try:
        port = serial.serial_for_url(url, BAUD_RATE, timeout=0, write_timeout=write_timeout_s)
        if url.startswith("socket:"):
            # The TCP connection replaces a cable: it must not hold a second request back (Nagle).
            with socket.socket(fileno=os.dup(port.fileno())) as cable:
                cable.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, ValueError) as error:
        raise LabError(f"{url}: {error}") from error
    return port


def _ports_there(patterns: Sequence[str]) -> str:
    """Name the ports there are: no udev rule renames an adapter it does not know."""
    ports = sorted(port for pattern in patterns for port in glob.glob(pattern))
    return f" (there is {', '.join(ports)}: if that is the robot, name it in ROBOT_DEVICE)" if ports else ""


def _single(pattern: str) -> str:
    if not glob.has_magic(pattern):
        return pattern
    ports = sorted(glob.glob(pattern))
    if len(ports) == 1:
        return ports[0]
    if not ports:
        raise LabError(f"{pattern}: {_WORDS[errno.ENOENT]}")
    raise LabError(f"{pattern}: there are {len(ports)} ({', '.join(ports)}): name one in ROBOT_DEVICE")

"""A robot on USB: which device is opened, what is said where none can be, and what its container may reach."""

import errno
import os
import pty
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from support.compose_files import merged
from support.places import ROOT

from looplab.errors import LabError
from looplab.experiments.loop.bridge.serial_device import latency_timer_ms, open_port, refuse_others

NOBODY = 65534


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A pseudo-terminal as tmp_path/by-id/usb-robot."""
    ours, theirs = pty.openpty()
    link = tmp_path / "by-id" / "usb-robot"
    link.parent.mkdir()
    link.symlink_to(os.ttyname(theirs))
    yield link
    os.close(ours)
    os.close(theirs)


def refusal(url: str, others: Sequence[str] = ()) -> str:
    with pytest.raises(LabError) as found:
        open_port(url, others)
    return str(found.value)


def test_a_wildcard_opens_the_only_device(device: Path) -> None:
    with open_port(f"{device.parent}/*") as port:
        assert (port.port, port.baudrate, port.timeout) == (str(device), 57600, 0)


def test_an_open_port_is_no_other_programs(device: Path) -> None:
    """By its lock, and by the kernel for a program that asks for none and is not root."""
    device.chmod(0o666)
    with open_port(str(device)) as port:
        assert refusal(str(device)) == f"{device}: another program has it (`fuser {device}` names it)"
        refuse_others(port.fileno())
        # Any reader that every user may start.
        user = NOBODY if os.geteuid() == 0 else None
        command = ["head", "--bytes", "1", os.path.realpath(device)]
        done = subprocess.run(command, user=user, capture_output=True, text=True, check=False, cwd="/")
        assert os.strerror(errno.EBUSY) in done.stderr
    with open_port(str(device), low_latency=True) as again:
        assert again.is_open


@pytest.mark.parametrize(("text", "timer_ms"), [("16\n", 16), ("1\n", 1), ("", None), (None, None)])
def test_an_adapters_latency_timer_is_read(tmp_path: Path, text: str | None, timer_ms: int | None) -> None:
    """As the kernel shows it of the device behind a link; another adapter's driver has none."""
    (tmp_path / "looplab-robot").symlink_to("ttyUSB3")
    timer = tmp_path / "devices/ttyUSB3/device/latency_timer"
    timer.parent.mkdir(parents=True)
    if text is not None:
        timer.write_text(text)
    assert latency_timer_ms(str(tmp_path / "looplab-robot"), tmp_path / "devices") == timer_ms


def test_a_wildcard_that_matches_two_names_both(device: Path) -> None:
    device.with_name("usb-another").symlink_to("/dev/null")
    said = refusal(f"{device.parent}/*")
    assert "usb-another" in said
    assert "usb-robot" in said
    assert "ROBOT_DEVICE" in said


@pytest.mark.parametrize("name", ["by-id/*", "by-id/usb-robot", "ttyUSB0", "leads-nowhere"])
def test_a_missing_device_is_said_to_be_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "leads-nowhere").symlink_to("../../ttyUSB0")
    assert (
        refusal(f"{tmp_path}/{name}") == f"{tmp_path}/{name}: no such device: is the robot plugged in and switched on?"
    )


def test_what_is_there_under_another_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "ttyACM3").touch()
    said = refusal(f"{tmp_path}/looplab-robot", [f"{tmp_path}/ttyACM*"])
    assert said.endswith(f"(there is {tmp_path}/ttyACM3: if that is the robot, name it in ROBOT_DEVICE)")


def test_a_device_of_another_group_says_whose_number_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "ttyUSB0"
    path.touch(mode=0)
    user = os.geteuid()
    # Root may open everything.
    os.seteuid(user or NOBODY)
    try:
        assert f"stat -c %g {path}" in refusal(str(path))
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    "url",
    [
        "/dev/null", "/etc/hostname", "socket://127.0.0.1:1", "socket://127.0.0.1", "rfc2217://127.0.0.1:1",
        "nonsense://x",
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_refused_with_its_name(url: str) -> None:
    assert refusal(url).startswith(f"{url}: ")


def test_the_container_may_open_serial_devices_alone() -> None:
    bridge = merged(ROOT, {"ROBOT": "usb"})["bridge"]
    # A node copied at the start would stop the start where it is missing, and go stale.
    assert "devices" not in bridge
    assert "/dev/shm" in bridge["tmpfs"]
    pi = yaml.safe_load((ROOT / "rpi/compose.yaml").read_text())["services"]["bridge"]
    for one in (bridge, pi):
        assert "/dev:/dev:ro" in one["volumes"]
        # ttyUSB and ttyACM.
        assert one["device_cgroup_rules"] == ["c 188:* rw", "c 166:* rw"]
    assert not {"privileged", "cap_add", "user"} & set(bridge)

"""Facts of the host, and who has its ports."""

import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.tools import make_repository

from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import Engine
from looplab.lab.machine.facts import host_facts, port_owners, serial_devices


def test_a_free_port_and_a_taken_one(programs: fakes.Programs) -> None:
    published = "looplab-broker-1\tlooplab\t127.0.0.1:1->1883/tcp\nother\t\t0.0.0.0:2->80/tcp, :::2->80/tcp\n"
    programs.add("docker", {"ps*": (published, "", 0)})
    programs.borrow("ss")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        (owner,) = port_owners({"LAB_BROKER_PORT": number}, "looplab").values()
        assert f"(process {Path('/proc/self').resolve().name})" in owner
    owners = {"A": "", "B": "container looplab-broker-1 of this lab", "C": "container other"}
    assert port_owners({"A": number, "B": 1, "C": 2}, "looplab") == owners


def test_a_serial_device_goes_by_its_lasting_name(tmp_path: Path) -> None:
    dev, by_id = tmp_path / "dev", tmp_path / "by-id"
    dev.mkdir()
    by_id.mkdir()
    (dev / "ttyUSB0").touch()
    (dev / "ttyACM3").touch()
    (by_id / "usb-1a86_USB_Serial-if00-port0").symlink_to(dev / "ttyUSB0")
    assert serial_devices(by_id, dev) == (dev / "ttyACM3", by_id / "usb-1a86_USB_Serial-if00-port0")
    assert serial_devices(tmp_path / "none", tmp_path / "by-id") == ()


@pytest.mark.parametrize(
    ("system", "endpoint", "cores"),
    [("Debian GNU/Linux 12", "default", 0), ("Docker Desktop", "desktop-linux", 3), ("Debian", "ssh://pi", 3)],
)
def test_the_cores_that_count_are_those_of_the_engine(tmp_path: Path, system: str, endpoint: str, cores: int) -> None:
    """Docker Desktop's containers run in a virtual machine with a part of the host's cores and memory."""
    host = host_facts(tmp_path, Engine())
    engine = Engine(operating_system=system, endpoint=endpoint, cores=3, memory_bytes=2**31, kernel="6.6-linuxkit")
    seen = host_facts(tmp_path, engine)
    assert seen.cores == (cores or host.cores)
    assert (seen.kernel == "6.6-linuxkit") == bool(cores)
    assert (seen.memory_bytes == 2**31) == bool(cores)
    assert host_facts(tmp_path, replace(engine, trouble="no answer")).kernel == host.kernel


def test_two_different_dirty_trees_are_two_revisions(tmp_path: Path) -> None:
    def after(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return Lab(tmp_path).revision()

    assert Lab(tmp_path).revision() == "no git checkout"
    (tmp_path / "src").mkdir()
    (tmp_path / "src/module.py").write_text("one")
    make_repository(tmp_path)
    clean = Lab(tmp_path).revision()
    assert len(clean) == 40
    found = [after("src/module.py", text) for text in ("two", "three", "two")] + [after("src/fresh.py", "four")]
    assert all(re.fullmatch(clean + r"\+changes-[0-9a-f]{8}", revision) for revision in found)
    assert found[0] == found[2]
    assert len(set(found)) == 3
    assert after("results.csv", "no part of the lab") == found[-1]
    place = tmp_path / "src/fresh.py"
    for folder in ("src/more", "compose", "images"):
        (tmp_path / folder).mkdir()
        place = place.rename(tmp_path / folder / place.name)
        found.append(Lab(tmp_path).revision())
    assert len(set(found)) == 6

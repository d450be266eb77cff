"""Facts of the host, and the file that carries them to Compose."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from looplab.lab.docker.engine import Engine
from looplab.lab.machine.facts import as_containers_see, host_facts, port_uses, read_published_ports, serial_devices
from looplab.lab.settings import read_machine_file, write_machine_file
from looplab.system.machine_facts import cpu_name_from


def test_a_free_port_and_a_taken_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        (use,) = port_uses([("LAB_BROKER_PORT", number)])
        assert use.taken
        assert f"(process {Path('/proc/self').resolve().name})" in use.owner
    (use,) = port_uses([("LAB_BROKER_PORT", number)])
    assert not use.taken
    (use,) = port_uses([("LAB_BROKER_PORT", number)], {number: "container x"})
    assert (use.taken, use.owner) == (True, "container x")


def test_ports_that_containers_publish() -> None:
    listing = (
        "looplab\tlooplab-s5-broker-1\t127.0.0.1:1883->1883/tcp\n"
        "\tother\t0.0.0.0:8000-8002->8000-8002/tcp, :::9090->9090/tcp, 1234/tcp\n"
    )
    of_others = dict.fromkeys((8000, 8001, 8002, 9090), "container other")
    assert read_published_ports(listing) == {1883: "container looplab-s5-broker-1 of this lab", **of_others}
    assert read_published_ports("") == {}


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n", "Intel(R) Xeon(R) Processor"),
        (
            "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
            "Raspberry Pi 4 Model B Rev 1.4",
        ),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", ""),
    ],
)
def test_the_processors_name(cpuinfo: str, name: str) -> None:
    assert cpu_name_from(cpuinfo) == name


def test_a_serial_device_goes_by_its_lasting_name(tmp_path: Path) -> None:
    dev, by_id = tmp_path / "dev", tmp_path / "by-id"
    dev.mkdir()
    by_id.mkdir()
    (dev / "ttyUSB0").touch()
    (dev / "ttyACM3").touch()
    (by_id / "usb-1a86_USB_Serial-if00-port0").symlink_to(dev / "ttyUSB0")
    found = {device.device: device.path for device in serial_devices(by_id, dev)}
    assert found == {
        str(dev / "ttyACM3"): str(dev / "ttyACM3"),
        str(dev / "ttyUSB0"): str(by_id / "usb-1a86_USB_Serial-if00-port0"),
    }
    assert serial_devices(tmp_path / "none", tmp_path / "by-id") == ()


def test_facts_of_this_host(tmp_path: Path) -> None:
    facts = host_facts(tmp_path / "not" / "there" / "yet")
    assert facts.cores >= 1
    assert facts.memory_bytes > 2**20
    assert facts.disk_free_bytes > 0
    assert facts.results_writable
    assert facts.cpu
    assert facts.kernel


def test_the_machine_file_comes_back_as_written(tmp_path: Path) -> None:
    assert read_machine_file(tmp_path) == {}
    variables = {"LAB_RTPRIO_BROKER": "0", "GRAFANA": "off"}
    path = write_machine_file(tmp_path, variables)
    assert path.name == ".env.machine"
    assert read_machine_file(tmp_path) == variables
    write_machine_file(tmp_path, {"GRAFANA": "on"})
    assert read_machine_file(tmp_path) == {"GRAFANA": "on"}
    assert [entry.name for entry in tmp_path.iterdir()] == [".env.machine"]


@pytest.mark.parametrize(
    ("system", "endpoint", "cores"),
    [("Debian GNU/Linux 12", "default", 0), ("Docker Desktop", "desktop-linux", 3), ("Debian", "ssh://pi", 3)],
)
def test_the_cores_that_count_are_those_of_the_engine(tmp_path: Path, system: str, endpoint: str, cores: int) -> None:
    """Docker Desktop's containers run in a virtual machine with a part of the host's cores and memory."""
    host = host_facts(tmp_path)
    engine = Engine(operating_system=system, endpoint=endpoint, cores=3, memory_bytes=2**31, kernel="6.6-linuxkit")
    seen = as_containers_see(host, engine)
    assert seen.cores == (cores or host.cores)
    assert (seen.kernel == "6.6-linuxkit") == bool(cores)
    assert (seen.memory_bytes == 2**31) == bool(cores)
    assert as_containers_see(host, replace(engine, trouble="no answer")) == host

"""Facts of the host, and the file that carries them to Compose."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.lab.docker.engine import Engine
from looplab.lab.machine.facts import host_facts, port_owners, serial_devices
from looplab.lab.settings import read_machine_file, write_machine_file
from looplab.system.machine_facts import cpu_model, cpu_name, cpu_name_from, governor

# As the kernel prints a core of arm64: it has no name there.
ARM_CORE = (
    "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x{variant}\n"
    "CPU part\t: 0x{part}\nCPU revision\t: {revision}\n\n"
)


def test_a_free_port_and_a_taken_one(programs: fakes.Programs) -> None:
    published = {"*'publish=1 '*": ("looplab-broker-1\tlooplab\n", "", 0), "*'publish=2 '*": ("other\t\n", "", 0)}
    programs.add("docker", {**published, "ps*": ("", "", 0)})
    programs.borrow("ss")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        (owner,) = port_owners({"LAB_BROKER_PORT": number}, "looplab").values()
        assert f"(process {Path('/proc/self').resolve().name})" in owner
    owners = {"A": "", "B": "container looplab-broker-1 of this lab", "C": "container other"}
    assert port_owners({"A": number, "B": 1, "C": 2}, "looplab") == owners


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n", "Intel(R) Xeon(R) Processor"),
        (f"{ARM_CORE.format(variant=0, part='d08', revision=3)}" * 4, "ARM Cortex-A72 r0p3"),
        (
            ARM_CORE.format(variant=2, part="d05", revision=0) + ARM_CORE.format(variant=4, part="d0b", revision=0),
            "ARM Cortex-A55 r2p0 + ARM Cortex-A76 r4p0",
        ),
        (ARM_CORE.format(variant=1, part="fff", revision=2), "ARM part 0xfff r1p2"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", ""),
    ],
)
def test_the_processors_name(cpuinfo: str, name: str) -> None:
    assert cpu_name_from(cpuinfo) == name


def test_a_board_is_named_with_its_cores(tmp_path: Path) -> None:
    cpuinfo, board = tmp_path / "cpuinfo", tmp_path / "model"
    cpuinfo.write_text(ARM_CORE.format(variant=0, part="d08", revision=3))
    board.write_text("Raspberry Pi 4 Model B Rev 1.4\0")
    assert cpu_name(cpuinfo, board) == "Raspberry Pi 4 Model B Rev 1.4 (ARM Cortex-A72 r0p3)"
    assert cpu_model(cpuinfo) == "0x41 0xd08-0x0-3"
    # A virtual machine has no board.
    assert cpu_name(cpuinfo, tmp_path / "none") == "ARM Cortex-A72 r0p3"
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nstepping\t: 8\n")
    assert cpu_model(cpuinfo) == "GenuineIntel 6-143-8"
    # Neither names anything.
    cpuinfo.write_text("")
    assert cpu_model(cpuinfo) == "unknown"
    assert cpu_name(cpuinfo, tmp_path / "none")


def test_the_governor_is_that_of_every_processor(tmp_path: Path) -> None:
    assert governor(tmp_path) == "none"
    for number, text in enumerate(("performance", "performance", "powersave")):
        (tmp_path / f"policy{number}").mkdir()
        (tmp_path / f"policy{number}" / "scaling_governor").write_text(f"{text}\n")
    assert governor(tmp_path) == "performance, powersave"


def test_a_serial_device_goes_by_its_lasting_name(tmp_path: Path) -> None:
    dev, by_id = tmp_path / "dev", tmp_path / "by-id"
    dev.mkdir()
    by_id.mkdir()
    (dev / "ttyUSB0").touch()
    (dev / "ttyACM3").touch()
    (by_id / "usb-1a86_USB_Serial-if00-port0").symlink_to(dev / "ttyUSB0")
    assert serial_devices(by_id, dev) == (dev / "ttyACM3", by_id / "usb-1a86_USB_Serial-if00-port0")
    assert serial_devices(tmp_path / "none", tmp_path / "by-id") == ()


def test_facts_of_this_host(tmp_path: Path) -> None:
    facts = host_facts(tmp_path / "not" / "there" / "yet", Engine())
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
    host = host_facts(tmp_path, Engine())
    engine = Engine(operating_system=system, endpoint=endpoint, cores=3, memory_bytes=2**31, kernel="6.6-linuxkit")
    seen = host_facts(tmp_path, engine)
    assert seen.cores == (cores or host.cores)
    assert (seen.kernel == "6.6-linuxkit") == bool(cores)
    assert (seen.memory_bytes == 2**31) == bool(cores)
    assert host_facts(tmp_path, replace(engine, trouble="no answer")).kernel == host.kernel

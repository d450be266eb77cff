"""The machine of a run: what a container sees, and what ./lab adds."""

import json
from pathlib import Path

import pytest

from looplab.system.machine_facts import UNKNOWN, cpu_model, cpu_name, cpu_name_from, describe, own_file

# As the kernel prints a core of arm64: it has no name there.
ARM_CORE = (
    "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x{variant}\n"
    "CPU part\t: 0x{part}\nCPU revision\t: {revision}\n\n"
)


def test_a_compose_file_of_ones_own_is_known_without_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_OWN", raising=False)
    assert own_file({"environment": describe()}) == ()
    monkeypatch.setenv("LAB_OWN", "my/stress.yaml")
    assert own_file({"environment": describe()}) == ("LAB_OWN=my/stress.yaml",)
    # ./lab knows what it changes.
    known = {"lab_own": {"file": "my/stress.yaml", "changes": "30f4d59a"}}
    assert own_file({"environment": describe(json.dumps(known))}) == ("LAB_OWN=my/stress.yaml@30f4d59a",)


@pytest.mark.parametrize("handed_in", ["{", "[1]", "5", '"text"', "null", "true"])
def test_what_is_no_json_object_is_left_out_and_said(handed_in: str) -> None:
    found = describe(handed_in)
    assert "LOOPLAB_ENVIRONMENT" in found["note"]
    assert found["engine"] == UNKNOWN


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

"""The machine of a run: what a container sees, and what ./lab adds."""

import json
from pathlib import Path

import pytest

from looplab.system.machine_facts import cpu_name, describe, own_file

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


def test_a_board_is_named_with_its_cores(tmp_path: Path) -> None:
    cpuinfo, board = tmp_path / "cpuinfo", tmp_path / "model"
    cpuinfo.write_text(ARM_CORE.format(variant=0, part="d08", revision=3))
    board.write_text("Raspberry Pi 4 Model B Rev 1.4\0")
    assert cpu_name(cpuinfo, board) == "Raspberry Pi 4 Model B Rev 1.4 (ARM 0xd08-0x0-3)"
    # A virtual machine has no board.
    assert cpu_name(cpuinfo, tmp_path / "none") == "ARM 0xd08-0x0-3"
    cpuinfo.write_text("processor\t: 0\nmodel\t\t: 143\nmodel name\t: X\nstepping\t: 8\n")
    assert cpu_name(cpuinfo, tmp_path / "none") == "X"
    cpuinfo.write_text("")
    assert cpu_name(cpuinfo, tmp_path / "none") == "unknown"

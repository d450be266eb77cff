"""What a container sees of its machine, by files as kernels have them; each trouble of a machine has its remedy."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from looplab.system.machine_facts import ClockDistances, cpu_name, describe, machine_state, own_file
from looplab.system.processes import processor_times
from looplab.system.remedies import remedy_of

CPU, POWER = "devices/system/cpu", "class/power_supply"
# As a laptop with intel_pstate has them, on mains.
LAPTOP = {
    f"{CPU}/cpufreq/policy0/scaling_governor": "performance",
    f"{CPU}/cpufreq/policy1/scaling_governor": "powersave",
    f"{CPU}/cpufreq/policy0/energy_performance_preference": "balance_performance",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/smt/control": "on",
    f"{CPU}/cpuidle/current_driver": "intel_idle",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "3",
    f"{CPU}/cpu1/thermal_throttle/package_throttle_count": "4",
    f"{POWER}/BAT0/type": "Battery",
    f"{POWER}/AC/type": "Mains",
    f"{POWER}/AC/online": "1",
    "devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "cmdline": "quiet mitigations=off",
}
# user nice system idle iowait irq softirq steal guest guest_nice, in ticks.
STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 5 0 5 700 50 1 2 25 0 0\ncpu11 5 0 5 100 0 1 2 50 0 0\nintr 77 0\nctxt 5\n"

# As the kernel prints a core of arm64: it has no name there.
ARM_CORE = (
    "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
    "CPU part\t: 0xd08\nCPU revision\t: 3\n\n"
)


def state(folder: Path, files: dict[str, str]) -> dict[str, object]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return machine_state(folder, folder)


def test_a_laptop(tmp_path: Path) -> None:
    assert state(tmp_path, LAPTOP) == {
        "governor": "performance, powersave",
        "energy_preference": "balance_performance",
        "boost": "on",
        "smt": "on",
        "idle_driver": "intel_idle",
        "power_source": "mains",
        "clock_source": "tsc",
        "kernel_command_line": "quiet mitigations=off",
        "throttle_count": 7,
    }


@pytest.mark.parametrize(
    ("changed", "name", "value"),
    [
        ({f"{CPU}/intel_pstate/no_turbo": "1"}, "boost", "off"),
        ({f"{CPU}/cpufreq/boost": "0"}, "boost", "off"),
        ({f"{POWER}/AC/online": "0"}, "power_source", "battery"),
        # A mouse's battery is no battery of the machine.
        ({f"{POWER}/BAT0/scope": "Device"}, "power_source", "none"),
    ],
)
def test_one_thing_is_otherwise(tmp_path: Path, changed: dict[str, str], name: str, value: object) -> None:
    assert state(tmp_path, {**LAPTOP, **changed})[name] == value


def test_what_a_kernel_does_not_show_is_not_guessed(tmp_path: Path) -> None:
    found = machine_state(tmp_path, tmp_path)
    assert found.pop("throttle_count") is None
    assert found.pop("clock_source") == found.pop("kernel_command_line") == "unknown"
    assert set(found.values()) == {"none"}


def test_time_that_only_the_clock_of_boot_counts_is_suspension() -> None:
    """In a time namespace CLOCK_BOOTTIME is 100 s ahead, as after a suspend of 100 s."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "--time", "true"], check=False).returncode:
        pytest.skip("needs root: time namespaces")
    code = "from looplab.system.machine_facts import ClockDistances as C; print(C.now().suspended_s)"
    ahead = ["unshare", "--time", "--fork", "--boottime", "100", sys.executable, "-c", code]
    there = subprocess.check_output(ahead, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert float(there) - ClockDistances.now().suspended_s == pytest.approx(100, abs=0.1)


def test_idle_is_also_what_waited_for_a_disk(tmp_path: Path) -> None:
    stat, hz = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    stat.write_text(STAT)
    assert processor_times(stat) == {
        "0": {"idle_s": 750 / hz, "steal_s": 25 / hz, "interrupts_s": 3 / hz},
        "11": {"idle_s": 100 / hz, "steal_s": 50 / hz, "interrupts_s": 3 / hz},
    }


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
    cpuinfo.write_text(ARM_CORE)
    board.write_text("Raspberry Pi 4 Model B Rev 1.4\0")
    assert cpu_name(cpuinfo, board) == "Raspberry Pi 4 Model B Rev 1.4 (ARM 0xd08-0x0-3)"
    # A virtual machine has no board.
    assert cpu_name(cpuinfo, tmp_path / "none") == "ARM 0xd08-0x0-3"
    cpuinfo.write_text("processor\t: 0\nmodel\t\t: 143\nmodel name\t: X\nstepping\t: 8\n")
    assert cpu_name(cpuinfo, tmp_path / "none") == "X"
    cpuinfo.write_text("")
    assert cpu_name(cpuinfo, tmp_path / "none") == "unknown"


# As engines and programs print them.
SAID = {
    "Bind for 127.0.0.1:1883 failed: port is already allocated": "LAB_BROKER_PORT",
    "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network": "VPN",
    "all predefined address pools have been fully subnetted": "default-address-pools",
    "429 Too Many Requests - Server message: denied": "docker login",
    "dial tcp: lookup registry-1.docker.io on 10.0.0.53:53: no such host": "reaches no registry",
    "ModuleNotFoundError: No module named 'looplab.run.prepare'": "older than this checkout",
    "fork/exec /usr/bin/runc: cannot allocate memory": "STRESS_VM",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?": "Start it",
    "error setting rlimit type 14: operation not permitted": "LAB_RTPRIO",
    "manifest for looplab/bridge:0.1.0 not found": "an image is missing",
}


@pytest.mark.parametrize(("said", "words"), SAID.items())
def test_what_a_program_prints_has_its_remedy(said: str, words: str) -> None:
    assert words in remedy_of(f"some line\n{said}\n", "")

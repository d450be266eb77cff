"""Idle and stolen time of each processor, as /proc/stat counts them."""

import os
from pathlib import Path

import pytest

from looplab.system import processors
from looplab.system.processors import container_cpu_s, processor_times

# user nice system idle iowait irq softirq steal guest guest_nice, in ticks.
STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 5 0 5 700 50 1 2 25 0 0\ncpu11 5 0 5 100 0 1 2 50 0 0\nintr 77 0\nctxt 5\n"


def test_idle_is_also_what_waited_for_a_disk(tmp_path: Path) -> None:
    stat, hz = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    stat.write_text(STAT)
    assert processor_times(stat) == {
        "0": {"idle_s": 750 / hz, "steal_s": 25 / hz, "interrupts_s": 3 / hz},
        "11": {"idle_s": 100 / hz, "steal_s": 50 / hz, "interrupts_s": 3 / hz},
    }


def test_what_this_process_and_its_children_use_is_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 10.0))
    free = iter([{"0": {"idle_s": 90.0, "steal_s": 10.0}}, {"0": {"idle_s": 101.0, "steal_s": 11.0}}])
    own = iter([(0.5, 0.0, 0.5, 0.0, 99.0), (1.0, 1.0, 1.0, 1.0, 199.0)])
    monkeypatch.setattr(processors.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(processors.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(processors.os, "times", lambda: next(own))
    monkeypatch.setattr(processors, "processor_times", lambda: next(free))
    # Of 20 s on two processors 12 s were free, and 3 s were the lab's own.
    assert processors.BusyWatch().share() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("groups", "file", "text"),
    [
        ("7:cpu:/docker/a\n4:cpuacct:/docker/a\n0::/docker/a\n", "cpuacct/docker/a/cpuacct.usage", "2500000000\n"),
        ("3:cpu,cpuacct:/docker/a\n", "cpuacct/docker/a/cpuacct.usage", "2500000000\n"),
        ("0::/docker/a\n", "docker/a/cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
    ],
)
def test_what_a_container_used_is_read_in_both_versions(tmp_path: Path, groups: str, file: str, text: str) -> None:
    for path, content in (("proc/7/cgroup", groups), (f"sys/fs/cgroup/{file}", text)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert container_cpu_s(7, tmp_path) == 2.5
    assert container_cpu_s(8, tmp_path) == 0.0


def test_a_container_of_the_lab_is_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, used = iter((0.0, 10.0)), iter((1.0, 9.0))
    monkeypatch.setattr(processors.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(processors.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(processors, "processor_times", dict)
    monkeypatch.setattr(processors.os, "times", lambda: (0.0,) * 5)
    monkeypatch.setattr(processors, "container_cpu_s", lambda _pid: next(used))
    assert processors.BusyWatch([7]).share() == pytest.approx(0.2)

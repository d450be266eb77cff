"""What real-time limits an engine grants, and the Compose variables that follow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes

from looplab.lab.docker.engine import find_engine
from looplab.lab.machine.limits import RT_BUDGET_US, RT_SHARES_US, Limits, machine_variables, probe_limits

IMAGE = "looplab/treatments:1"
GOOD: fakes.Answer = ("", "", 0)
REFUSED: fakes.Answer = ("", "PermissionError: [Errno 1] Operation not permitted", 1)


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without control groups."""
    monkeypatch.setenv("LAB_HOST", str(tmp_path))


def cgroup_v1(tmp_path: Path, budget_us: int) -> None:
    top = tmp_path / "sys/fs/cgroup/cpu"
    (top / "docker").mkdir(parents=True)
    (top / "cpu.rt_runtime_us").write_text("950000\n")
    (top / "docker" / "cpu.rt_runtime_us").write_text(f"{budget_us}\n")


def answers(
    *,
    rationed: bool = False,
    rtprio: fakes.Answer = GOOD,
    fifo: fakes.Answer = GOOD,
    own_group: fakes.Answer = GOOD,
    top_group: fakes.Answer = GOOD,
    info: Mapping[str, str] = {},
) -> dict[str, fakes.Answer]:
    return {
        "info*": fakes.good_info(**info),
        "'image inspect'*": GOOD,
        "*rt_runtime_us*": ("/sys/fs/cgroup/cpu/cpu.rt_runtime_us\n" if rationed else "\n", "", 0),
        "*--ulimit=rtprio*": rtprio,
        "*--cpu-rt-runtime*": GOOD,
        "*--cap-add=SYS_NICE*": fifo,
        "*--cgroup-parent=looplab.slice*": own_group,
        "*'--cgroup-parent=/ '*": top_group,
        "*--cgroup-parent=-.slice*": GOOD,
    }


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache/limits.json"


def probe(cache: Path) -> Limits:
    return probe_limits(find_engine(), IMAGE, cache)


NO_RTPRIO: fakes.Answer = ("", fakes.RTPRIO_REFUSED, 125)
NO_GROUP: fakes.Answer = ("", "docker: Error response from daemon: cpu.rt_runtime_us: invalid argument", 125)
AS_ROOT = {"LAB_RTPRIO": "0", "LAB_PRIORITY_UID": "0"}
# What an engine refuses, the budget of its group, what it reports; then the variables, and a reason by name.
FOUND: dict[str, tuple[dict[str, Any], int | None, dict[str, str], tuple[str, str]]] = {
    "grants all": ({}, None, {"LAB_WATCH_GROUP": "/"}, ("", "")),
    "no rtprio": (
        {"rtprio": NO_RTPRIO},
        None,
        {"LAB_WATCH_GROUP": "/", **AS_ROOT},
        ("rtprio", "error setting rlimit type 14: operation not permitted"),
    ),
    # A capability that gives nothing is not held.
    "no priority": (
        {"rtprio": NO_RTPRIO, "fifo": REFUSED},
        None,
        {"LAB_WATCH_GROUP": "/", "LAB_RTPRIO": "0"},
        ("fifo", "Operation not permitted"),
    ),
    # The budget is that of the engine's group: what needs some stays there.
    "rationed": (
        {"rationed": True, "fifo": REFUSED},
        RT_BUDGET_US,
        {"LAB_RATIONED": "on", "LAB_FAR_GROUP": "", "LAB_WATCH_GROUP": "/"},
        ("", ""),
    ),
    "too small a budget": (
        {"rationed": True, "fifo": REFUSED},
        RT_SHARES_US - 1,
        {"LAB_WATCH_GROUP": "/"},
        ("fifo", "too small a real-time budget"),
    ),
    # A low weight beside the measured parts would stall them.
    "no other group": (
        {"own_group": NO_GROUP, "top_group": NO_GROUP},
        None,
        {"LAB_FAR_GROUP": "", "LAB_WATCH_GROUP": "", "LAB_WATCH_WEIGHT": "0"},
        ("group", "cpu.rt_runtime_us: invalid argument"),
    ),
    "top to itself": ({"top_group": NO_GROUP}, None, {}, ("", "")),
    "systemd": ({"info": {"CgroupDriver": "systemd"}}, None, {"LAB_WATCH_GROUP": "-.slice"}, ("", "")),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_an_engine_grants_becomes_variables_and_reasons(
    programs: fakes.Programs, tmp_path: Path, cache: Path, name: str
) -> None:
    """A granted priority sets none: the value of .env stands."""
    refused, budget_us, variables, (what, reason) = FOUND[name]
    if budget_us is not None:
        cgroup_v1(tmp_path, budget_us)
    programs.add("docker", answers(**refused))
    limits = probe(cache)
    assert machine_variables(limits) == variables
    assert reason in limits.refused.get(what, "")
    with_budget = [call for call in programs.calls("docker") if "--cpu-rt-runtime" in call]
    assert bool(with_budget) == ("LAB_RATIONED" in variables)


def test_limits_are_remembered_until_the_engine_changes(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", answers())
    first = probe(cache)
    runs = [call for call in programs.calls("docker") if call.startswith("run")]
    assert probe(cache) == first
    assert [call for call in programs.calls("docker") if call.startswith("run")] == runs
    programs.add("docker", answers(rationed=True, fifo=REFUSED, info={"ServerVersion": "28"}))
    assert probe(cache) != first


def test_without_an_image_nothing_is_claimed(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", {"info*": fakes.good_info(), "'image inspect'*": ("[]", "Error: No such image", 1)})
    limits = probe(cache)
    assert limits.unknown
    assert not limits.grants("fifo")
    assert not cache.exists()
    assert machine_variables(limits)["LAB_RTPRIO"] == "0"

"""What real-time limits an engine grants, and the Compose variables that follow."""

import json
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.lab.docker.engine import Engine, find_engine
from looplab.lab.machine.limits import (
    RT_BUDGET_US,
    Limits,
    give_rt_budget,
    machine_variables,
    probe_limits,
    rt_budget_file,
    rt_budget_us,
    rt_runtimes_us,
)

IMAGE = "looplab/treatments:1"
NO_GROUPS_FIFO = "fifo=yes\npidfd_getfd=yes\n"
GROUPS_NO_FIFO = "rt_group_sched=yes\nfifo=no\npidfd_getfd=no: Operation not permitted\n"


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without control groups."""
    monkeypatch.setenv("LAB_HOST", str(tmp_path))


def cgroup_v1(tmp_path: Path, budget_us: int | None) -> None:
    top = tmp_path / "sys/fs/cgroup/cpu"
    top.mkdir(parents=True)
    (top / "cpu.rt_runtime_us").write_text("950000\n")
    if budget_us is not None:
        (top / "docker").mkdir()
        (top / "docker" / "cpu.rt_runtime_us").write_text(f"{budget_us}\n")


def answers(
    script: str,
    *,
    rtprio: fakes.Answer,
    fifo: fakes.Answer = ("", "", 0),
    own_group: fakes.Answer = ("", "", 0),
    top_group: fakes.Answer = ("", "", 0),
) -> dict[str, fakes.Answer]:
    return {
        "info*": fakes.good_info(),
        "'image inspect'*": ("[]", "", 0),
        "*--ulimit=rtprio*": rtprio,
        "*--cpu-rt-runtime*": fifo,
        "*--cap-add=SYS_PTRACE*": (script, "", 0),
        "*--cgroup-parent=looplab.slice*": own_group,
        "*'--cgroup-parent=/ '*": top_group,
    }


def test_a_machine_that_grants_all(programs: fakes.Programs) -> None:
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", "", 0)))
    limits = probe_limits(find_engine(), IMAGE)
    assert limits == Limits(known=True, rtprio_max=99, fifo=True, pidfd_getfd=True, own_group=True, watch_group="/")
    found = machine_variables(limits)
    assert "LAB_RTPRIO_BROKER" not in found  # the value of .env stands
    assert found["LAB_RT_RUNTIME_ROBOT_US"] == "0"  # cpu_rt_runtime is refused on such a kernel
    assert found["LAB_WATCH_GROUP"] == "/"
    assert not {"LAB_WATCH_WEIGHT", "LAB_FAR_GROUP"} & set(found)  # those of the Compose files
    assert not any("--cpu-rt-runtime" in call for call in programs.calls("docker"))


def test_rtprio_refused_becomes_a_variable_and_a_reason(programs: fakes.Programs) -> None:
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", fakes.RTPRIO_REFUSED, 125)))
    limits = probe_limits(find_engine(), IMAGE)
    assert limits.rtprio_max == 0
    assert limits.rtprio_refusal == "error setting rlimit type 14: operation not permitted"
    assert machine_variables(limits)["LAB_RTPRIO_BROKER"] == "0"
    assert machine_variables(limits)["LAB_RTPRIO_CONTROLLER"] == "0"


def test_real_time_groups_with_a_budget(programs: fakes.Programs, tmp_path: Path) -> None:
    cgroup_v1(tmp_path, RT_BUDGET_US)
    programs.add("docker", answers(GROUPS_NO_FIFO, rtprio=("", "", 0)))
    limits = probe_limits(find_engine(), IMAGE)
    assert limits.fifo
    assert limits.rt_budget_us == RT_BUDGET_US
    assert limits.pidfd_refusal == "Operation not permitted"
    budgets = {
        f"LAB_RT_RUNTIME_{name.upper()}_US": str(value)
        for name, value in (
            ("broker", 130_000),
            ("controller", 130_000),
            ("bridge", 130_000),
            ("robot", 370_000),
            ("link", 100_000),
            ("treatments", 30_000),
        )
    }
    # The budget is that of the engine's group: what needs some stays there.
    assert machine_variables(limits) == {**budgets, "LAB_FAR_GROUP": "", "LAB_WATCH_GROUP": "/"}


def test_an_engine_that_allows_no_other_group(programs: fakes.Programs) -> None:
    refused = ("", "docker: Error response from daemon: cpu.rt_runtime_us: invalid argument", 125)
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", "", 0), own_group=refused, top_group=refused))
    limits = probe_limits(find_engine(), IMAGE)
    assert limits.own_group_refusal == "cpu.rt_runtime_us: invalid argument"
    found = machine_variables(limits)
    # A low weight beside the measured parts would stall them.
    assert (found["LAB_WATCH_GROUP"], found["LAB_WATCH_WEIGHT"], found["LAB_FAR_GROUP"]) == ("", "0", "")


def test_an_engine_that_keeps_its_top_to_itself(programs: fakes.Programs) -> None:
    refused = ("", "docker: Error response from daemon: not allowed", 125)
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", "", 0), top_group=refused))
    found = machine_variables(probe_limits(find_engine(), IMAGE))
    assert not {"LAB_WATCH_GROUP", "LAB_WATCH_WEIGHT", "LAB_FAR_GROUP"} & set(found)


def test_systemd_names_its_top_otherwise(programs: fakes.Programs) -> None:
    found = answers(NO_GROUPS_FIFO, rtprio=("", "", 0), top_group=("", "should be a valid slice", 125))
    programs.add(
        "docker", {**found, "info*": fakes.good_info(CgroupDriver="systemd"), "*--cgroup-parent=-.slice*": ("", "", 0)}
    )
    assert machine_variables(probe_limits(find_engine(), IMAGE))["LAB_WATCH_GROUP"] == "-.slice"


def test_real_time_groups_without_a_budget(programs: fakes.Programs, tmp_path: Path) -> None:
    cgroup_v1(tmp_path, 0)
    programs.add("docker", answers(GROUPS_NO_FIFO, rtprio=("", "", 0), fifo=("", "chrt: refused", 1)))
    limits = probe_limits(find_engine(), IMAGE)
    assert not limits.fifo
    assert "budget" in limits.fifo_refusal
    assert set(rt_runtimes_us(limits).values()) == {0}


@pytest.mark.parametrize("budget_us", [100_000, 500_000, 899_999, 900_000, 950_000])
def test_shares_never_exceed_the_budget(budget_us: int) -> None:
    shares = rt_runtimes_us(Limits(known=True, rt_group_sched=True, rt_budget_us=budget_us, fifo=True))
    assert 0.9 * budget_us * 850 / 950 <= sum(shares.values()) <= budget_us
    assert shares["LAB_RT_RUNTIME_ROBOT_US"] > shares["LAB_RT_RUNTIME_BROKER_US"] > 0


def test_the_budget_is_given_even_before_the_first_container(tmp_path: Path) -> None:
    cgroup_v1(tmp_path, None)
    engine = Engine(server_version="20.10", cgroup_version=1, cgroup_driver="cgroupfs")
    assert rt_budget_us(engine) == 0
    assert give_rt_budget(engine)
    assert rt_budget_us(engine) == RT_BUDGET_US


@pytest.mark.parametrize(
    "engine",
    [
        Engine(server_version="28", cgroup_version=2),
        Engine(server_version="28", cgroup_version=1, rootless=True),
        Engine(server_version="28", cgroup_version=1, endpoint="tcp://192.0.2.1:2375"),
    ],
)
def test_other_engines_have_no_budget_file_here(engine: Engine, tmp_path: Path) -> None:
    cgroup_v1(tmp_path, RT_BUDGET_US)
    assert rt_budget_file(engine) is None


def test_limits_are_remembered_until_the_engine_changes(programs: fakes.Programs, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "limits.json"
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", "", 0)))
    first = probe_limits(find_engine(), IMAGE, cache)
    runs = [call for call in programs.calls("docker") if call.startswith("run")]
    assert probe_limits(find_engine(), IMAGE, cache) == first
    assert [call for call in programs.calls("docker") if call.startswith("run")] == runs
    programs.add(
        "docker", {**answers(GROUPS_NO_FIFO, rtprio=("", "", 0)), "info*": fakes.good_info(ServerVersion="28")}
    )
    assert probe_limits(find_engine(), IMAGE, cache) != first


def test_what_an_older_release_remembered_is_found_out_again(programs: fakes.Programs, tmp_path: Path) -> None:
    cache = tmp_path / "limits.json"
    programs.add("docker", answers(NO_GROUPS_FIFO, rtprio=("", "", 0)))
    first = probe_limits(find_engine(), IMAGE, cache)
    stored = json.loads(cache.read_text())
    del stored["limits"]["watch_group"]
    cache.write_text(json.dumps(stored))
    assert probe_limits(find_engine(), IMAGE, cache) == first


def test_without_an_image_nothing_is_claimed(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.add("docker", {"info*": fakes.good_info(), "'image inspect'*": ("[]", "Error: No such image", 1)})
    cache = tmp_path / "limits.json"
    limits = probe_limits(find_engine(), IMAGE, cache)
    assert not limits.known
    assert not limits.fifo
    assert not cache.exists()
    assert machine_variables(limits)["LAB_RTPRIO_BROKER"] == "0"

"""What real-time limits an engine grants, and the Compose variables that follow."""

from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.lab.docker.engine import Engine, find_engine
from looplab.lab.machine.limits import (
    RT_BUDGET_US,
    RT_SHARES_US,
    Limits,
    give_rt_budget,
    machine_variables,
    probe_limits,
    rt_budget_file,
    rt_budget_us,
)

IMAGE = "looplab/treatments:1"
GOOD: fakes.Answer = ("", "", 0)
REFUSED: fakes.Answer = ("", "PermissionError: [Errno 1] Operation not permitted", 1)


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
    *,
    rationed: bool = False,
    rtprio: fakes.Answer = GOOD,
    fifo: fakes.Answer = GOOD,
    with_budget: fakes.Answer = GOOD,
    sockets: fakes.Answer = GOOD,
    own_group: fakes.Answer = GOOD,
    top_group: fakes.Answer = GOOD,
) -> dict[str, fakes.Answer]:
    return {
        "info*": fakes.good_info(),
        "'image inspect'*": GOOD,
        "*rt_runtime_us*": ("/sys/fs/cgroup/cpu/cpu.rt_runtime_us\n" if rationed else "\n", "", 0),
        "*--ulimit=rtprio*": rtprio,
        "*--cpu-rt-runtime*": with_budget,
        "*--cap-add=SYS_NICE*": fifo,
        "*--cap-add=SYS_PTRACE*": sockets,
        "*--cgroup-parent=looplab.slice*": own_group,
        "*'--cgroup-parent=/ '*": top_group,
    }


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache/limits.json"


def probe(cache: Path) -> Limits:
    return probe_limits(find_engine(), IMAGE, cache)


def test_a_machine_that_grants_all(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", answers())
    limits = probe(cache)
    assert limits == Limits(watch_group="/")
    found = machine_variables(limits)
    assert not {"LAB_RTPRIO", "LAB_PRIORITY_UID"} & set(found)  # the value of .env stands
    assert "LAB_RATIONED" not in found  # cpu_rt_runtime is refused on such a kernel
    assert found["LAB_WATCH_GROUP"] == "/"
    assert not {"LAB_WATCH_WEIGHT", "LAB_FAR_GROUP"} & set(found)  # those of the Compose files
    assert not any("--cpu-rt-runtime" in call for call in programs.calls("docker"))


def test_rtprio_refused_becomes_a_variable_and_a_reason(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", answers(rtprio=("", fakes.RTPRIO_REFUSED, 125)))
    limits = probe(cache)
    assert limits.refused["rtprio"] == "error setting rlimit type 14: operation not permitted"
    found = machine_variables(limits)
    assert (found["LAB_RTPRIO"], found["LAB_PRIORITY_UID"]) == ("0", "0")


def test_a_capability_that_gives_nothing_is_not_held(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", answers(rtprio=("", fakes.RTPRIO_REFUSED, 125), fifo=REFUSED))
    assert "LAB_PRIORITY_UID" not in machine_variables(probe(cache))


def test_real_time_groups_with_a_budget(programs: fakes.Programs, tmp_path: Path, cache: Path) -> None:
    cgroup_v1(tmp_path, RT_BUDGET_US)
    programs.add("docker", answers(rationed=True, fifo=REFUSED, sockets=REFUSED))
    limits = probe(cache)
    assert limits.grants("fifo")
    assert limits.rt_budget_us == RT_BUDGET_US
    assert limits.refused["sockets"] == "PermissionError: [Errno 1] Operation not permitted"
    # The budget is that of the engine's group: what needs some stays there.
    assert machine_variables(limits) == {"LAB_RATIONED": "on", "LAB_FAR_GROUP": "", "LAB_WATCH_GROUP": "/"}


def test_an_engine_that_allows_no_other_group(programs: fakes.Programs, cache: Path) -> None:
    refused = ("", "docker: Error response from daemon: cpu.rt_runtime_us: invalid argument", 125)
    programs.add("docker", answers(own_group=refused, top_group=refused))
    limits = probe(cache)
    assert limits.refused["group"] == "cpu.rt_runtime_us: invalid argument"
    found = machine_variables(limits)
    # A low weight beside the measured parts would stall them.
    assert (found["LAB_WATCH_GROUP"], found["LAB_WATCH_WEIGHT"], found["LAB_FAR_GROUP"]) == ("", "0", "")


def test_an_engine_that_keeps_its_top_to_itself(programs: fakes.Programs, cache: Path) -> None:
    refused = ("", "docker: Error response from daemon: not allowed", 125)
    programs.add("docker", answers(top_group=refused))
    found = machine_variables(probe(cache))
    assert not {"LAB_WATCH_GROUP", "LAB_WATCH_WEIGHT", "LAB_FAR_GROUP"} & set(found)


def test_systemd_names_its_top_otherwise(programs: fakes.Programs, cache: Path) -> None:
    found = answers(top_group=("", "should be a valid slice", 125))
    programs.add(
        "docker", {**found, "info*": fakes.good_info(CgroupDriver="systemd"), "*--cgroup-parent=-.slice*": ("", "", 0)}
    )
    assert machine_variables(probe(cache))["LAB_WATCH_GROUP"] == "-.slice"


@pytest.mark.parametrize("budget_us", [0, RT_SHARES_US - 1])
def test_real_time_groups_without_a_budget(
    programs: fakes.Programs, tmp_path: Path, cache: Path, budget_us: int
) -> None:
    cgroup_v1(tmp_path, budget_us)
    programs.add("docker", answers(rationed=True, fifo=REFUSED, sockets=REFUSED))
    limits = probe(cache)
    assert not limits.grants("fifo")
    assert "budget" in limits.refused["fifo"]
    assert "LAB_RATIONED" not in machine_variables(limits)


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


def test_limits_are_remembered_until_the_engine_changes(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", answers())
    first = probe(cache)
    runs = [call for call in programs.calls("docker") if call.startswith("run")]
    assert probe(cache) == first
    assert [call for call in programs.calls("docker") if call.startswith("run")] == runs
    programs.add(
        "docker",
        {**answers(rationed=True, fifo=REFUSED, sockets=REFUSED), "info*": fakes.good_info(ServerVersion="28")},
    )
    assert probe(cache) != first


def test_without_an_image_nothing_is_claimed(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", {"info*": fakes.good_info(), "'image inspect'*": ("[]", "Error: No such image", 1)})
    limits = probe(cache)
    assert limits.unknown
    assert not limits.grants("fifo")
    assert not cache.exists()
    assert machine_variables(limits)["LAB_RTPRIO"] == "0"

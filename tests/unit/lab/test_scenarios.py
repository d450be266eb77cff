"""Scenario folders: found, chosen, read as Compose reads them, and a new one made from the template."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.compose_files import Service, merged
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.checkout import measuring_code
from looplab.lab.commands.new import ALIKE, new
from looplab.lab.scenarios import LOOP_FILE, chosen, scenarios

THESIS = tuple(f"scenario{n}" for n in range(9))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what ./lab new reads and writes."""
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    shutil.copytree(ROOT / "compose", tmp_path / "compose")
    return tmp_path


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_neither_a_new_scenario_nor_a_page_is_other_code_that_measures(tree: Path) -> None:
    for place in ("src/looplab/run/record.py", "src/looplab/experiments/loop/report/claims.py", "firmware/README.md"):
        (tree / place).parent.mkdir(parents=True)
        (tree / place).write_text("one")
    before = measuring_code(tree)
    new(tree, "mine", "scenario5")
    (tree / "compose/own.yaml").write_text("services: {stress: {cpus: 1}}")
    for place in ("src/looplab/experiments/loop/report/claims.py", "firmware/README.md", "compose/links.md"):
        (tree / place).write_text("two")
    assert measuring_code(tree) == before
    (tree / "src/looplab/run/record.py").write_text("two")
    other = measuring_code(tree)
    (tree / LOOP_FILE).write_text((tree / LOOP_FILE).read_text().replace("stop_grace_period: 3s", ""))
    assert len({before, other, measuring_code(tree)}) == 3


def test_all_stands_for_the_nine_and_nothing_is_run_twice(tree: Path) -> None:
    new(tree, "mine")
    assert [s.name for s in chosen(tree, ["scenario3", "all", "mine", "mine"])] == [
        "scenario3", *(name for name in THESIS if name != "scenario3"), "mine",
    ]  # fmt: skip


def test_the_shell_overrides_what_params_env_leaves_open() -> None:
    scenario = scenarios(ROOT)["scenario8"]
    found = scenario.parameters({"MESSAGES": "7", "QOS": "", "LOAD": "none", "FIDELITY": "corrected"})
    assert (found.messages, found.qos, found.fidelity) == (7, (0, 1, 2), "corrected")
    # What loop.yaml gives is no choice of the shell.
    assert found.load == "flood"


def started(services: dict[str, Service], profile: str) -> set[str]:
    return {name for name, service in services.items() if profile in service.get("profiles", ())}


@pytest.mark.parametrize("source", ["scenario0", "scenario8"])
def test_a_new_scenario_starts_and_asks_what_its_model_does(tree: Path, source: str) -> None:
    before = snapshot(tree)
    folder = new(tree, "scenario91", source)
    assert folder == tree / "compose" / "scenarios" / "scenario91"
    services, others = merged(tree, {}), merged(ROOT, {})
    assert started(services, "scenario91") == {*started(services, source) - {source}, "scenario91"}
    own = {key: value for key, value in services["scenario91"].items() if key not in ("profiles", "env_file")}
    assert own.items() <= services[source].items()
    assert services["scenario91"]["env_file"] == ["scenarios/default.env", "scenarios/scenario91/params.env"]
    found, like = (scenarios(tree)[name].parameters({}) for name in ("scenario91", source))
    assert replace(found, scenario=source, title=like.title) == like
    assert "scenario91" not in [one.name for one in chosen(tree, ["all"])]
    # Nothing else has changed: every other profile starts what it started.
    assert all(started(services, name) == started(others, name) for name in (*THESIS, "twin", "asip"))
    assert not any("@" in path.read_text() for path in folder.iterdir())
    changed = {name for name, content in snapshot(tree).items() if before.get(name) != content}
    assert {one for one in changed if "scenario91" not in one} == {
        "compose/loop.yaml", "compose/link.custom.yaml", "compose/link.wifi.yaml", *ALIKE,
    }  # fmt: skip
    assert merged(tree, {"CLIENTS": "printed"})["scenario91"]["image"].startswith(
        "${LAB_REGISTRY:-localhost/}looplab/printed:"
    )


def test_the_options_of_a_load_reach_it_from_params_env(tree: Path) -> None:
    with (new(tree, "mine", "scenario5") / "params.env").open("a") as params:
        params.write("STRESS_CPU=${STRESS_CPU:-6}\n")
    found = scenarios(tree)
    asked = [("mine", {}), ("mine", {"STRESS_CPU": "8"}), ("scenario5", {})]
    assert [found[name].load_settings(given)["STRESS_CPU"] for name, given in asked] == ["6", "8", ""]
    # No command of Compose has its default.
    assert found["scenario7"].load_settings({})["FLOOD_REPEAT"] == "true"


def test_a_name_that_is_taken_or_no_good_for_compose_is_refused(tree: Path) -> None:
    before = snapshot(tree)
    for message, names in (
        ("cannot be a scenario's name", ("", "My", "../x", "a" * 32, "with space")),
        ("already", ("scenario1", "broker", "twin", "twin-instance", "baseline")),
    ):
        for name in names:
            with pytest.raises(UsageError, match=message):
                new(tree, name)
    assert snapshot(tree) == before


def test_a_scenario_has_several_names_and_balance_runs_with_any() -> None:
    found = chosen(ROOT, ["baseline", "Docker-stress", "broker-priority", "5"])
    assert [one.name for one in found] == [one.run_name for one in found] == [THESIS[n] for n in (1, 2, 4, 5)]
    (one,) = chosen(ROOT, ["balance"], "5")
    assert (one.name, one.run_name, one.parameters({}).scenario) == ("scenario5", *["balance-scenario5"] * 2)
    names = ["balance-scenario5", "scenario5", "balance", "balance-Scenario5"]
    assert [one.run_name for one in chosen(ROOT, names)] == names[:3]

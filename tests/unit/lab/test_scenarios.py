"""Scenario folders: found, chosen, read as Compose reads them, and a new one made from the template."""

import shutil
from pathlib import Path

import pytest
import yaml
from support.places import ROOT

from looplab.errors import LabError, UsageError
from looplab.lab.commands.new import new
from looplab.lab.scenarios import check_one_kind, chosen, published, scenarios

THESIS = tuple(f"scenario{n}" for n in range(9))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what ./lab new reads and writes."""
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    shutil.copytree(ROOT / "compose", tmp_path / "compose")
    return tmp_path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that must leave it as it is."""
    root = tmp_path_factory.mktemp("kept")
    shutil.copy(ROOT / "compose.yaml", root)
    return Path(shutil.copytree(ROOT / "compose", root / "compose")).parent


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_nine_are_there_in_order() -> None:
    assert published(ROOT) == list(THESIS)


def test_numbers_count_as_numbers(tree: Path) -> None:
    for name in ("scenario10", "scenario9", "another"):
        new(tree, name)
    assert list(scenarios(tree)) == ["another", *THESIS, "scenario9", "scenario10"]


def test_all_stands_for_the_nine_and_nothing_is_run_twice(tree: Path) -> None:
    new(tree, "mine")
    assert [s.name for s in chosen(tree, ["scenario3", "all", "mine", "mine"])] == [
        "scenario3", *(name for name in THESIS if name != "scenario3"), "mine",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["scenario99", "_template", "", "../scenarios/scenario1", "Scenario1"])
def test_an_unknown_scenario_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="no scenario") as caught:
        chosen(ROOT, [name])
    assert "scenario8" in caught.value.remedy


def test_the_shell_overrides_what_params_env_leaves_open() -> None:
    scenario = scenarios(ROOT)["scenario8"]
    found = scenario.parameters({"MESSAGES": "7", "QOS": "", "LOAD": "none", "FIDELITY": "corrected"})
    assert (found.messages, found.qos, found.fidelity) == (7, (0, 1, 2), "corrected")
    # What its compose.yaml gives is no choice of the shell.
    assert found.load == "flood"


@pytest.mark.parametrize("name", THESIS)
def test_each_of_the_nine_reads_well(name: str) -> None:
    scenario = scenarios(ROOT)[name]
    assert scenario.parameters({}).scenario == name
    assert scenario.controller == f"s{name.removeprefix('scenario')}-controller"


def test_a_folder_without_controller_is_said(tree: Path) -> None:
    path = tree / "compose" / "scenarios" / "scenario1" / "compose.yaml"
    path.write_text(path.read_text().replace("s1-controller:", "s1-client:"))
    with pytest.raises(UsageError, match=r"scenario1/compose\.yaml"):
        scenarios(tree)


def test_files_saved_on_windows_are_read(tree: Path) -> None:
    for path in (tree / "compose" / "scenarios" / "scenario1").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    found = scenarios(tree)["scenario1"]
    assert found == scenarios(ROOT)["scenario1"]


def test_a_new_scenario_is_listed_and_can_be_read(tree: Path) -> None:
    before = snapshot(tree)
    folder = new(tree, "scenario9")
    assert folder == tree / "compose" / "scenarios" / "scenario9"
    scenario = scenarios(tree)["scenario9"]
    assert (scenario.prefix, scenario.controller) == ("s9", "s9-controller")
    assert scenario.parameters({}).scenario == "scenario9"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert set(compose) == {"s9-broker", "s9-controller"}
    assert all(service["profiles"] == ["scenario9"] for service in compose.values())
    for name, added in (
        ("compose.yaml", "  - compose/scenarios/scenario9/compose.yaml"),
        ("compose/profiles.yaml", "      - scenario9"),
    ):
        lines = (tree / name).read_text().splitlines()
        assert lines[lines.index(added) - 1] == added.replace("scenario9", "scenario8")
        lines.remove(added)
        assert lines == (ROOT / name).read_text().splitlines()
    assert not any("@" in path.read_text() for path in folder.iterdir())
    changed = {name for name, content in snapshot(tree).items() if before.get(name) != content}
    assert {name for name in changed if "scenario9" not in name} == {"compose.yaml", "compose/profiles.yaml"}


BAD_NAMES = ("", "x", "9lives", "My", "a_b", "a/b", "../x", "a" * 32, "with space", "ä1", "-a")


@pytest.mark.parametrize(
    ("name", "message"),
    [*((name, "cannot be a scenario's name") for name in BAD_NAMES), ("scenario1", "there already")],
)
def test_a_name_that_is_taken_or_no_good_for_compose_is_refused(kept: Path, name: str, message: str) -> None:
    before = snapshot(kept)
    with pytest.raises(UsageError, match=message):
        new(kept, name)
    assert snapshot(kept) == before


def test_service_names_never_clash(tree: Path) -> None:
    new(tree, "s1")
    new(tree, "scenario01")
    prefixes = [scenario.prefix for scenario in scenarios(tree).values()]
    assert len(prefixes) == len(set(prefixes))


def test_a_lab_whose_list_is_gone_stays_as_it_is(tree: Path) -> None:
    (tree / "compose.yaml").write_text("services: {}\n")
    before = snapshot(tree)
    with pytest.raises(LabError, match=r"compose\.yaml"):
        new(tree, "mine")
    assert snapshot(tree) == before


def test_an_experiment_is_chosen_by_its_name_and_no_part_of_all() -> None:
    (found,) = chosen(ROOT, ["qos-delay"])
    assert (found.controller, found.title) == ("qd-controller", "Network delay and QoS")
    assert len(found.parameters({}).cells) == 42
    assert [scenario.name for scenario in chosen(ROOT, ["all"])] == list(THESIS)


def test_scenarios_and_experiments_are_not_mixed_in_a_run() -> None:
    with pytest.raises(UsageError, match="not run by one command") as caught:
        check_one_kind(chosen(ROOT, ["scenario0", "qos-delay"]))
    assert "qos-delay" in caught.value.remedy

"""The options of `./lab run`, which its experiments declare, and wrong use of them: nothing is started."""

import subprocess

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.cli import main


def test_help_has_every_option_and_claim_of_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "study"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    words = {word.strip(",") for word in capsys.readouterr().out.split()}
    options = {option.flag for one in EXPERIMENTS.values() for option in one.parameters.options()}
    assert {"50%,100%"} | options | {claim for one in EXPERIMENTS.values() for claim in one.studies} <= words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "SCENARIO"),
        ("run --quikc", "(did you mean --quick?)"),
        ("rum", "invalid choice: 'rum' (did you mean run?)"),
        ("run scenario42", "scenario42"),
        ("run scenario0 --broker mosqitto", "(did you mean mosquitto?)"),
        ("run scenario0 --brokr mochi", "(did you mean --broker?)"),
        ("run scenario0 --link moon", "Known: custom, none, wifi"),
        ("run scenario0 --link wifi --robot remote", "LINK=wifi with ROBOT=remote"),
        ("run qos-delay --robot usb", "--robot: no option of qos-delay"),
        ("study balance --as scenario3", "COMMAND=E: scenario3 has no robot"),
        ("run scenario0 scenario1 --rounds 0", "--rounds"),
        ("run scenario0 --print", "run on several hosts"),
        ("new Scenario~9", "lower-case"),
    ],
)
def test_wrong_use_is_told_and_starts_nothing(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    programs.add("docker", {})
    monkeypatch.setenv("LAB_ROOT", str(ROOT))
    for name in ("FIDELITY", "ROBOT", "LINK", "BROKER", "QOS", "BROKER_TLS"):
        monkeypatch.delenv(name, raising=False)
    try:
        code = main(words.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert programs.calls("docker") == []


def test_a_wrong_variable_is_refused_though_quick_replaces_it(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.add("docker", {})
    monkeypatch.setenv("LAB_ROOT", str(ROOT))
    monkeypatch.setenv("INTERVALS_MS", "abc")
    assert main(["run", "scenario1", "--quick"]) == 2
    assert "INTERVALS_MS='abc'" in capsys.readouterr().err
    assert programs.calls("docker") == []


def test_a_standard_output_that_is_full_is_named() -> None:
    with open("/dev/full", "w") as full:
        command = [str(ROOT / "lab"), "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("lab: standard output: No space left on device.\n  Free some disk space")

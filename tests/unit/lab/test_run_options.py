"""Wrong use of `./lab run` and its options: nothing is started."""

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.lab.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "SCENARIO"),
        ("run scenario0 --quikc", "--quikc"),
        ("rum", "invalid choice: 'rum'"),
        ("run scenario42", "scenario42"),
        ("run scenario0 --broker mosqitto", "invalid choice: 'mosqitto'"),
        ("run scenario0 --link moon", "Known: custom, none, wifi"),
        ("run scenario0 --link wifi --robot remote", "LINK=wifi with ROBOT=remote"),
        ("run qos-delay --robot usb", "--robot: no option of qos-delay"),
        ("study balance --as scenario3", "COMMAND=E: scenario3 has no robot"),
        ("run scenario0 scenario1 --rounds 0", "--rounds"),
        ("new Scenario~9", "lower-case"),
    ],
)
def test_wrong_use_is_told_and_starts_nothing(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    programs.add("docker", {})
    monkeypatch.setenv("LAB_ROOT", str(ROOT))
    try:
        code = main(words.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert programs.calls("docker") == []

"""The options of `./lab run`, which its experiments declare."""

import pytest

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.cli import main


def test_help_has_every_option_of_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    words = capsys.readouterr().out.split()
    options = {option for name in EXPERIMENTS for option in EXPERIMENTS[name].part("parameters").PARAMETERS.options()}
    assert {option.flag for option in options} <= set(words)
    assert " ".join(words).count("50%,100%") == 1

"""promtool's own checks of configuration and rules."""

import subprocess

import pytest
from support.places import ROOT


@pytest.mark.parametrize(
    ("asked", "file", "said"),
    [
        ("check config", "compose/prometheus/prometheus.yml", "rules found"),
        ("test rules", "tests/integration/observability/rules_test.yml", "SUCCESS"),
    ],
)
def test_configuration_and_rules_do_what_they_say(asked: str, file: str, said: str) -> None:
    command = ["promtool", *asked.split(), file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout

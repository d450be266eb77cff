"""promtool's own checks of configuration and rules."""

import subprocess

from support.places import ROOT


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_configuration_and_rules_are_well_formed() -> None:
    done = promtool("check", "config", "compose/prometheus/prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_rules_do_what_they_say() -> None:
    done = promtool("test", "rules", "tests/integration/observability/rules_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout

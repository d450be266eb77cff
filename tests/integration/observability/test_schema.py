"""The dashboards against Grafana's own types (npm's @grafana/schema): what it does not know, it ignores silently."""

import json

from support.grafana_code import run_program
from support.observed_lab import DASHBOARDS


def test_grafana_knows_every_key_and_value() -> None:
    whole = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}
    # Each kind of mistake that the program looks for: an unknown key, an unknown value.
    whole["spoilt"] = {**whole["compare-scenarios"], "tooltips": 1}
    complaints = run_program("schema.js", [{"name": name, "dashboard": one} for name, one in whole.items()])
    assert [(one["name"], one["part"]) for one in complaints] == [("spoilt", "dashboard")], complaints

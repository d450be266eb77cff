"""The dashboards against Grafana's own types (npm's @grafana/schema): what it does not know, it ignores silently."""

from support.dashboards import PATHS, load
from support.grafana_code import run_program


def test_grafana_knows_every_key_and_value() -> None:
    whole = {path.stem: load(path) for path in PATHS}
    # Each kind of mistake that the program looks for: an unknown key, an unknown value.
    whole["spoilt"] = {**whole["compare-scenarios"], "tooltips": 1}
    complaints = run_program("schema.js", [{"name": name, "dashboard": one} for name, one in whole.items()])
    assert [(one["name"], one["part"]) for one in complaints] == [("spoilt", "dashboard")], complaints

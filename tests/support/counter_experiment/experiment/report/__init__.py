"""The report on the counter."""

from pathlib import Path

from looplab.report.stored import Layout

LAYOUT = Layout(schema=Path(__file__).parents[1] / "run.schema.json", keys=("sleep_ms",), metrics={"S": "total_us"})
PAGE = "counter.html"

"""The report on the counter."""

from looplab.report.stored import Layout

LAYOUT = Layout(keys=("sleep_ms",), metrics={"S": "total_us"})
PAGE = "counter.html"

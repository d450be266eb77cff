"""The report on twin: what limits a digital twin, beside the paper's figures."""

from looplab.experiments.twin.report.cell import MeasuredTwin

CELLS = {"": MeasuredTwin}
PAGE = "twin.html"

"""What an exercise may ask about the cells of a run of the middleware."""

from looplab.experiments.middleware.report.cell import FIGURES
from looplab.experiments.middleware.report.findings import claims

__all__ = ["FIELDS", "FIGURES", "LINES", "MEANINGS", "METRICS", "claims"]

# 1 for yes, 0 for no: in a container, behind the balancer; `cores` are those of one node.
FIELDS = {"container": 1, "balancer": 0, "nodes": 1, "cores": [None], "devices": [None]}
METRICS = ("response", "sent_response", "server")
MEANINGS = {
    "devices": "the cell: how many devices post; the line above it says where the middleware runs",
    "done/s": "requests that succeeded in each second of the load",
    "failed": "requests with another answer than success, or none; `unfin.`: no answer when the repetition ended",
    "resp p50": "from when a request was due to its answer, in ms: half of all requests take less",
    "resp p99": "99 of 100 requests take less; a dash if more than one of 100 had no good answer",
    "cpu/req": "processor time of the middleware for a request, in ms",
    "MiB": "memory of the middleware when the load begins",
}
LINES = {
    "succeeded": "done/s",
    "processed": "done/s",
    "failed_share": "failed",
    "unfinished_share": "failed",
    "response": "resp p50",
    "cpu_per_request": "cpu/req",
    "memory": "MiB",
}

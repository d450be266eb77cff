"""Dashboard: the run that goes on, or went on last."""

from __future__ import annotations

from typing import Any

from generator import panels
from generator.dashboard import dashboard, fixed_choice
from generator.queries import CURRENT_CELL, NEWEST, RUNNING_CELL, cdf, curves, last

METRICS = {"O": "O, without the robot", "T": "T, in all", "R": "R, at the robot"}


def live_loop() -> dict[str, Any]:
    """The dashboard a class looks at while a scenario runs."""
    return dashboard(
        "looplab-live",
        "Live loop",
        "The scenario that is being measured; when it has ended, the picture stays.",
        [
            # Both rows are seen at once on a projector's 720 lines.
            (5, [(6, _run()), (5, _progress()), (13, _counts())]),
            (10, [(12, _cdf_of_metrics()), (12, _cdf_of_intervals())]),
            (9, [(12, _quantiles()), (12, _lateness())]),
            (9, [(8, _broker()), (8, _broker_cpu()), (8, _rate())]),
            (9, [(16, _treatments()), (8, _alerts())]),
        ],
        [fixed_choice("metric", "Latency", "Which part of the time is drawn over time.", METRICS, "O")],
        refresh="1s",
        since="10m",
    )


def _run() -> panels.Panel:
    mappings = [
        {
            "type": "value",
            "options": {
                "0": {"text": "ended", "color": "text", "index": 0},
                "1": {"text": "measuring", "color": "#117733", "index": 1},
            },
        }
    ]
    query = f"max by (scenario, fidelity) ({last('loop_run_active')} and on (scenario, fidelity) {NEWEST})"
    return panels.numbers(
        "Run",
        "The scenario that was started last, and how faithfully it follows the published set-up.",
        [panels.target(query, legend="{{scenario}}, {{fidelity}}", instant=True)],
        mappings=mappings,
    )


def _progress() -> panels.Panel:
    sent, planned = last("loop_messages_sent_total"), last("loop_run_messages_planned")
    query = (
        f"sum by (scenario) ({sent} and on (scenario, fidelity) {NEWEST})\n"
        f"/ sum by (scenario) ({planned} and on (scenario, fidelity) {NEWEST})"
    )
    return panels.numbers(
        "Progress",
        "Messages sent, of all that this run will send.",
        [panels.target(query, legend="sent", instant=True)],
        unit="percentunit",
        text="value",
    )


def _counts() -> panels.Panel:
    def outcome(name: str) -> str:
        selector = f'loop_messages_total{{outcome="{name}"}}'
        return f"sum({last(selector)} and on (scenario, fidelity) {NEWEST})"

    sent = f"sum({last('loop_messages_sent_total')} and on (scenario, fidelity) {NEWEST})"
    targets = [
        panels.target(sent, legend="sent", instant=True),
        panels.target(outcome("answered"), legend="answered", instant=True),
        panels.target(outcome("late"), legend="late", instant=True),
        panels.target(outcome("lost"), legend="lost", instant=True),
        panels.target(outcome("robot_error"), legend="robot errors", instant=True),
    ]
    bad = {
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": "text", "value": None}, {"color": "#CC3311", "value": 1}],
        },
        "color": {"mode": "thresholds"},
    }
    return panels.numbers(
        "Messages",
        "Every message is counted once: sent = answered + late + lost + robot errors, and those still under way. "
        "Late: answered after the deadline. Lost: no answer within twice the deadline.",
        targets,
        # Every single message: not 1.47 K.
        unit="none",
        overrides=[panels.by_name(name, bad) for name in ("late", "lost", "robot errors")],
    )


def _cdf_of_metrics() -> panels.Panel:
    # R's buckets begin lower; only the bounds that T has too are drawn here.
    every = cdf('metric=~"T|R|O"')
    query = f"max by (metric, le) (\n({every})\nand on (le) {last(_bucket('T'))}\nand {CURRENT_CELL}\n)"
    return panels.cdf_panel(
        "T, R and O of the cell being measured",
        "How to read it: at 10 ms the curve's height is the share of messages answered within 10 ms. T is the whole "
        "time from request to answer, R the part spent at the robot, O = T - R all the rest: broker, network, queues. "
        "A curve further left is faster, a steeper one steadier.",
        query,
        series="metric",
        x_label="latency of this cell (interval and QoS measured last)",
        overrides=panels.metric_overrides(),
    )


def _bucket(metric: str) -> str:
    return f'loop_latency_seconds_bucket{{metric="{metric}",le!="+Inf"}}'


def _cdf_of_intervals() -> panels.Panel:
    query = curves('metric="$metric"', within=f"and on (scenario, fidelity) {NEWEST}")
    return panels.cdf_panel(
        "$metric at each interval of this run",
        "One curve for each interval between requests (and QoS) that this run has measured so far. "
        "Do short intervals make the answers slower, and why?",
        query,
        x_label="latency",
        x_min_s=None,
        overrides=[],
    )


def _quantiles() -> panels.Panel:
    targets = [
        panels.target(
            f'max(loop_latency_quantile_seconds{{metric="$metric",q="{q}"}}\nand {RUNNING_CELL})', legend=name
        )
        for name, q in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99"), ("p99.9", "0.999"))
    ]
    return panels.graph(
        "$metric: running quantiles",
        "Exact quantiles of all answers of the cell so far. p99 = 20 ms: one message in a hundred took longer than "
        "20 ms. Watch p99 and p99.9 where p50 does not move: load shows in the tail first.",
        targets,
        unit="s",
        label="latency (logarithmic)",
        logarithmic=True,
        overrides=panels.colours(panels.QUANTILE_COLOURS),
    )


def _lateness() -> panels.Panel:
    targets = [
        panels.target(f'max(loop_send_lateness_quantile_seconds{{q="{q}"}}\nand {RUNNING_CELL})', legend=name)
        for name, q in (("p50", "0.5"), ("p99", "0.99"))
    ]
    return panels.graph(
        "Send lateness: is the measurement itself on time?",
        "Each request is due at a fixed time, whatever came back. This is how much later it really left. Above the "
        "dashed line (5 ms, half of the shortest interval) the schedule itself is disturbed: be careful with the rest.",
        targets,
        unit="s",
        label="lateness (logarithmic)",
        logarithmic=True,
        warn_at=0.005,
        overrides=panels.colours(panels.QUANTILE_COLOURS),
    )


def _broker() -> panels.Panel:
    return panels.broker_store(
        "Broker: messages held and dropped",
        "Messages the broker holds (queued, in flight, retained), and how many it has dropped. "
        "No line: the broker is not there.",
    )


def _broker_cpu() -> panels.Panel:
    return panels.parts(
        "CPU of the parts",
        "How many processors each part of the lab uses; 1 is one whole processor.",
        "lab:part_cpu:cores",
        unit="short",
        label="processors",
    )


def _rate() -> panels.Panel:
    return panels.broker_rates(
        "Through the broker",
        "PUBLISH packets in and out each second. The loop alone at 20 ms is 100 in (50 requests, 50 answers).",
    )


def _treatments() -> panels.Panel:
    query = (
        f"max by (what, wanted, found, required) ({last('loop_treatment_verified')} "
        f"and on (scenario, fidelity) {NEWEST})"
    )
    verdict = {
        "mappings": [
            {
                "type": "value",
                "options": {
                    "0": {"text": "NO", "color": "#CC3311", "index": 0},
                    "1": {"text": "yes", "color": "#117733", "index": 1},
                },
            }
        ],
        "custom.cellOptions": {"type": "color-text"},
    }
    return panels.listing(
        "Treatments: wanted and found",
        "What this scenario wants of the machine, and what was really found on the live processes. "
        "A required one that was not found makes the run invalid.",
        query,
        columns={
            "what": "treatment",
            "wanted": "wanted",
            "found": "found",
            "required": "required",
            "Value": "as wanted",
        },
        overrides=[panels.by_name("as wanted", verdict)],
    )


def _alerts() -> panels.Panel:
    return panels.listing(
        "Alerts now",
        "Empty is good. Each alert says in Prometheus (Alerts) what to do about it.",
        'max by (alertname, scenario, interval_ms) (ALERTS{alertstate="firing"})',
        columns={"alertname": "alert", "scenario": "scenario", "interval_ms": "ms", "Value": "firing"},
        overrides=panels.widths({"alert": 185, "scenario": 95, "ms": 50}),
    )

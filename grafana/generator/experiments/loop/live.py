"""Dashboard: the run that is going on, or the last one."""

from generator import panels
from generator.dashboard import Dashboard, dashboard, fixed_choice
from generator.experiments.loop.looks import (
    METRICS,
    OVERHEAD_COLOURS,
    OVERHEAD_PARTS,
    QUANTILE_COLOURS,
    cdf_panel,
    interval_overrides,
    metric_overrides,
)
from generator.experiments.loop.queries import CURRENT_CELL, NEWEST, RUNNING_CELL, bucket, cdf, curves, of_newest
from generator.looks import by_name, colours, thresholds, widths, yes_or_no
from generator.queries import last
from generator.tables import listing


def live_loop() -> Dashboard:
    """Return the dashboard that a class sees while a scenario runs."""
    return dashboard(
        "looplab-live",
        "Live loop",
        "The scenario that is being measured, or was measured last.",
        [
            # Both rows are seen at once on a projector's 720 lines.
            (4, [(5, _run()), (4, _progress()), (4, _valid()), (11, _counts())]),
            (11, [(10, _cdf_of_metrics()), (8, _lateness()), (6, _misses())]),
            (10, [(12, _cdf_of_intervals()), (12, _quantiles())]),
            (9, [(12, _made_of()), (12, _broker())]),
            (9, [(12, _broker_cpu()), (12, _rate())]),
            (9, [(16, _treatments()), (8, _alerts())]),
        ],
        [fixed_choice("metric", "Latency", "Which part of the time is drawn over time.", METRICS, "O")],
        refresh="2s",
        # A quick run fills a part that the last row sees.
        since="2m",
    )


def _run() -> panels.Panel:
    query = f"max by (scenario, fidelity) ({last('loop_run_active')} and on (scenario, fidelity) {NEWEST})"
    return panels.numbers(
        "Run",
        "The scenario that was started last, and how faithfully it follows the published set-up.",
        {"{{scenario}}, {{fidelity}}": query},
        mappings=[yes_or_no("ended", "measuring", no_colour="text")],
    )


def _valid() -> panels.Panel:
    active = f"({last('loop_run_active')} == 1 and on (scenario, fidelity) {NEWEST})"
    judged = f"({last('loop_run_valid')} and on (scenario, fidelity) {NEWEST} unless on (scenario, fidelity) {active})"
    return panels.numbers(
        "Valid?",
        "A run is invalid if a required treatment was not found on the live processes, and then proves nothing: the "
        "table *Treatments* below names it. The controller judges at the end of the run.",
        {"valid": f"max({judged} or 2 * {active})"},
        mappings=[yes_or_no("INVALID", "valid", neither="judged at its end")],
        text="value",
    )


def _progress() -> panels.Panel:
    sent = of_newest("loop_messages_sent_total")
    planned = f"sum by (scenario) ({last('loop_run_messages_planned')} and on (scenario, fidelity) {NEWEST})"
    return panels.numbers(
        "Progress",
        "Messages sent, of all that this run will send.",
        {"sent": f"{sent}\n/ {planned}"},
        unit="percentunit",
        text="value",
    )


def _counts() -> panels.Panel:
    outcomes = {"answered": "answered", "late": "late", "lost": "lost", "robot errors": "robot_error"}
    counts = {name: of_newest(f'loop_messages_total{{outcome="{label}"}}') for name, label in outcomes.items()}
    bad = {"thresholds": thresholds("text", 1), "color": {"mode": "thresholds"}}
    return panels.numbers(
        "Messages",
        "Every message is counted once: sent = answered + late + lost + robot errors, and those under way. "
        "Late: answered after the deadline. Lost: no answer within twice the deadline.",
        {"sent": of_newest("loop_messages_sent_total"), **counts},
        # Every single message: not 1.47 K.
        unit="none",
        overrides=[by_name(name, bad) for name in ("late", "lost", "robot errors")],
    )


def _cdf_of_metrics() -> panels.Panel:
    # R's buckets begin lower; only the bounds that T has too are drawn here.
    every, bounds = cdf('metric=~"T|R|O"'), last(bucket('metric="T"'))
    query = f"max by (metric, le) (\n({every})\nand on (le) {bounds}\nand {CURRENT_CELL}\n)"
    return cdf_panel(
        "T, R and O of the cell being measured",
        "How to read it: at 10 ms the curve's height is the share of messages answered within 10 ms. T is the whole "
        "time from request to answer, R the part spent at the robot, O = T - R all the rest: broker, network, queues. "
        "R of the virtual robot is fitted to the published mean. "
        "A curve further left is faster, a steeper one steadier.",
        query,
        series="metric",
        x_label="latency of this cell (interval and QoS measured last)",
        overrides=metric_overrides(),
    )


def _cdf_of_intervals() -> panels.Panel:
    query = curves('metric="$metric"', within=f"and on (scenario, fidelity) {NEWEST}")
    return cdf_panel(
        "$metric at each interval of this run",
        "One curve for each interval between requests (and QoS) that this run has measured so far. "
        "Do short intervals make the answers slower, and why?",
        query,
        x_label="latency",
        x_min_s=None,
        overrides=interval_overrides(),
    )


def _quantiles() -> panels.Panel:
    quantiles = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "p99.9": "0.999"}
    metric = 'loop_latency_quantile_seconds{metric="$metric",q='
    return panels.graph(
        "$metric: running quantiles",
        "Exact quantiles of all answers of the cell so far. p99 = 20 ms: one message in a hundred took longer than "
        "20 ms. Watch p99 and p99.9 if p50 does not move: load shows in the tail first.",
        {name: f'max({metric}"{q}"}}\nand {RUNNING_CELL})' for name, q in quantiles.items()},
        unit="s",
        label="latency (logarithmic)",
        logarithmic=True,
        overrides=colours(QUANTILE_COLOURS),
    )


def _made_of() -> panels.Panel:
    return panels.graph(
        "What is O made of?",
        "The mean O of the cell so far, part by part, by the kernel's time stamps. Wake-up: a message is there and its "
        "program waits for a processor. Send path: from the program to the network. Which part grows under load?",
        {
            name: f'max(loop_overhead_part_seconds{{part="{part}"}}\nand {RUNNING_CELL})'
            for part, name in OVERHEAD_PARTS.items()
        },
        unit="s",
        label="mean of the cell so far",
        stacked=True,
        overrides=colours(OVERHEAD_COLOURS),
    )


def _lateness() -> panels.Panel:
    metric = "loop_send_lateness_quantile_seconds{q="
    return panels.graph(
        "Send lateness: is the measurement itself on time?",
        "Each request is due at a fixed time, whatever came back (pacing sleep: an interval after the last one left). "
        "This is how much later it left. Above the dashed line (5 ms, half of the shortest interval) the sender itself "
        "is disturbed: do not trust the other panels.",
        {name: f'max({metric}"{q}"}}\nand {RUNNING_CELL})' for name, q in (("p50", "0.5"), ("p99", "0.99"))},
        unit="s",
        label="lateness (logarithmic)",
        logarithmic=True,
        warn_at=0.005,
        overrides=colours(QUANTILE_COLOURS),
    )


def _misses() -> panels.Panel:
    beyond, messages = "loop_messages_beyond_interval_total", "loop_messages_total"
    return panels.graph(
        "Deadline misses",
        "Share of the cell's messages without an answer within one interval of being due: a control loop has no new "
        "value when it needs one. It counts from due, so a late sender shows here and not in T; lost messages count.",
        {"beyond one interval": f"sum({beyond}\nand {RUNNING_CELL})\n/ sum({messages}\nand {RUNNING_CELL})"},
        unit="percentunit",
        label="share of the messages so far",
    )


def _broker() -> panels.Panel:
    return panels.broker_store(
        "Broker: messages held and dropped",
        "Messages the broker holds (queued, in flight, retained), and how many it has dropped. "
        "No line: no broker runs.",
    )


def _broker_cpu() -> panels.Panel:
    return panels.parts(
        "CPU of the parts",
        "How many processors each part of the lab uses; 1 is one whole processor.",
        "lab:part_cpu:cores",
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
        "mappings": [yes_or_no("NO", "yes")],
        "custom.cellOptions": {"type": "color-text"},
    }
    return listing(
        "Treatments: wanted and found",
        "What this scenario wants of the machine, and what was found on the live processes. "
        "A required one that was not found makes the run invalid.",
        query,
        columns={
            "what": "treatment",
            "wanted": "wanted",
            "found": "found",
            "required": "required",
            "Value": "as wanted",
        },
        overrides=[by_name("as wanted", verdict), *widths({"treatment": 215, "required": 80, "as wanted": 90})],
    )


def _alerts() -> panels.Panel:
    return listing(
        "Alerts now",
        "Empty is good. Prometheus (Alerts) shows the remedy of each alert.",
        'max by (alertname, scenario, interval_ms) (ALERTS{alertstate="firing"})',
        columns={"alertname": "alert", "scenario": "scenario", "interval_ms": "ms", "Value": "firing"},
        no_value="no alert: all is well",
        overrides=widths({"alert": 185, "scenario": 95, "ms": 50}),
    )

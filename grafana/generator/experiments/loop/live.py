"""Dashboard: the run that is going on, or the last one."""

from generator import panels
from generator.dashboard import Dashboard, dashboard, fixed_choice
from generator.experiments.loop.queries import CURRENT_CELL, NEWEST, RUNNING_CELL, cdf_to_p999, of_newest
from generator.experiments.loop.styles import (
    METRICS,
    OVERHEAD_COLOURS,
    OVERHEAD_PARTS,
    QUANTILE_COLOURS,
    cdf_panel,
    metric_overrides,
    metric_words,
)
from generator.queries import last
from generator.styles import by_name, colours, thresholds, widths, yes_or_no
from generator.tables import listing


def live_loop() -> Dashboard:
    """Return the dashboard that a class sees while a scenario runs."""
    return dashboard(
        "looplab-live",
        "Live loop",
        "The scenario that is being measured, or was measured last.",
        [
            # Both rows are seen at once on a projector's 720 lines.
            (4, [(12, _run()), (12, _counts())]),
            (12, [(10, _cdf_of_metrics()), (8, _lateness()), (6, _misses())]),
            (10, [(12, _quantiles()), (12, _made_of())]),
            (9, [(24, _treatments())]),
        ],
        [fixed_choice("metric", "Latency", "Which part of the time is drawn over time.", METRICS, "O")],
        refresh="2s",
        # A quick run fills a part that the last row sees.
        since="2m",
    )


def _run() -> panels.Panel:
    cell = f"max by (scenario, fidelity, interval_ms, qos) ({last('loop_cell_current')} == 1\nand {CURRENT_CELL})"
    active = f"max by (scenario, fidelity) ({last('loop_run_active')} and on (scenario, fidelity) {NEWEST})"
    judged = (
        f"({last('loop_run_valid')} and on (scenario, fidelity) {NEWEST}) unless on (scenario, fidelity) {active} == 1"
    )
    loads = {"CPU stress": _load("stress"), "MQTT flood": _load("flood")}
    name = "{{scenario}}, {{fidelity}}: {{interval_ms}} ms, QoS {{qos}}"
    state = {name: f"{active} * on (scenario, fidelity) group_right () {cell}"}
    return panels.numbers(
        "Run",
        "The scenario that was started last, how faithfully it follows the published set-up, and the cell being "
        "measured. Valid: judged at its end; without a required treatment a run proves nothing (*Treatments* below). "
        "A load is on if it takes more than a twentieth of a processor.",
        {**state, "valid": f"max({judged}) or 2 * max({active} == 1)", **loads},
        mappings=[yes_or_no("ended", "measuring", no_colour="text")],
        overrides=[
            by_name("valid", {"mappings": [yes_or_no("INVALID", "yes", neither="at its end")]}),
            *(by_name(load, {"mappings": [yes_or_no("off", "on", no_colour="text")]}) for load in loads),
        ],
    )


def _load(part: str) -> str:
    """Return a query: 1 while the processes of that load compute, else 0."""
    return f'max(lab:part_cpu:cores{{part="{part}"}} > bool 0.05) or vector(0)'


def _counts() -> panels.Panel:
    outcomes = {"answered": "answered", "late": "late", "lost": "lost", "robot errors": "robot_error"}
    counts = {name: of_newest(f'loop_messages_total{{outcome="{label}"}}') for name, label in outcomes.items()}
    sent = of_newest("loop_messages_sent_total")
    planned = f"sum by (scenario) ({last('loop_run_messages_planned')} and on (scenario, fidelity) {NEWEST})"
    bad = {"thresholds": thresholds("text", 1), "color": {"mode": "thresholds"}}
    return panels.numbers(
        "Messages",
        "Sent, of all that this run will send. Every message is counted once: sent = answered + late + lost + robot "
        "errors, and those under way. "
        "Late: answered after the deadline. Lost: no answer within twice the deadline.",
        {"progress": f"{sent}\n/ {planned}", "sent": sent, **counts},
        # Every single message: not 1.47 K.
        unit="none",
        overrides=[
            by_name("progress", {"unit": "percentunit", "decimals": 0}),
            *(by_name(name, bad) for name in ("late", "lost", "robot errors")),
        ],
    )


def _cdf_of_metrics() -> panels.Panel:
    query = metric_words(f"max by (metric, le) (\n{cdf_to_p999(CURRENT_CELL)}\n)")
    return cdf_panel(
        "T, R and O of the cell being measured",
        "How to read it: at 10 ms the curve's height is the share of messages answered within 10 ms. T is the whole "
        "time from request to answer, R the part spent at the robot, O = T - R all the rest: broker, network, queues. "
        "R of the virtual robot is fitted to the published mean. The curves end where 999 of 1000 answers are in. "
        "A curve further left is faster, a steeper one steadier.",
        query,
        series="metric",
        x_label="latency of this cell (interval and QoS measured last)",
        x_max_s=None,
        overrides=metric_overrides(),
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
    late, of = "loop_messages_beyond_interval_total", "loop_messages_total"
    so_far, lately = (
        f"sum({one.format(late)}\nand {RUNNING_CELL})\n/ sum({one.format(of)}\nand {RUNNING_CELL})"
        for one in ("{}", "rate({}[10s])")
    )
    return panels.graph(
        "Deadline misses",
        "Share of the last 10 s' messages without an answer within one interval of being due: a control loop has no "
        "new value when it needs one. It counts from due, so a late sender shows here and not in T. Lost ones count.",
        {"beyond one interval": f"({lately}) >= 0\nor {so_far}"},
        unit="percentunit",
        label="share of the last 10 s",
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
        overrides=[by_name("as wanted", verdict), *widths({"treatment": 330, "required": 80, "as wanted": 90})],
    )

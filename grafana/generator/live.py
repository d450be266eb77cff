"""Dashboard: the run that is going on, or the last one, of any experiment."""

from generator import panels
from generator.curves import OVERHEAD_PARTS, QUANTILE_COLOURS, THIN_MEDIAN, cdf_panel, metric_overrides
from generator.dashboard import Dashboard, choice, dashboard
from generator.queries import cdf, current_cell, last, newest_run, running_cell, whole
from generator.styles import colours, override, widths, yes_or_no
from generator.tables import listing

CHOSEN = 'experiment=~"$experiment"'
NEWEST, CURRENT, RUNNING = newest_run(CHOSEN), current_cell(CHOSEN), running_cell(CHOSEN)
QUANTILES = {"p50": "0.5", "p99": "0.99"}
LOOP_ONLY = "only the control loop has this: ./lab run scenario2 --quick"


def live() -> Dashboard:
    """Return the dashboard that a class sees while an experiment runs."""
    return dashboard(
        "looplab-live",
        "Live",
        "The run that is going on, or went on last, of any experiment.",
        [
            # Both rows are seen at once on a projector's 720 lines.
            (4, [_run(), panels.messages("Messages", NEWEST)]),
            (12, [_cdf_of_metrics(), _lateness(), _misses()], 10, 8, 6),
            (10, [_quantiles(), _made_of()]),
            (14, [_treatments()]),
        ],
        [choice("experiment", "Experiment", "lab_run_info", "Of which the newest run is shown.", ["All"])],
        refresh="2s",
        # A quick run fills a part that the last row sees.
        since="2m",
    )


def _run() -> panels.Panel:
    cell = f"max by (run_id, scenario, fidelity, cell) ({last('lab_cell_current')} and {CURRENT})"
    active, valid = (
        f"max by (run_id) ({last(f'{name}{{{CHOSEN}}}')} and {NEWEST})" for name in ("lab_run_active", "lab_run_valid")
    )
    # A load is on while its processes compute.
    loads = {
        words: f'max(lab:part_cpu:cores{{part="{part}"}} > bool 0.05) or vector(0)'
        for words, part in {"CPU stress": "stress", "MQTT flood": "flood"}.items()
    }
    state = {"{{scenario}}, {{fidelity}}: {{cell}}": f"{active} * on (run_id) group_right () {cell}"}
    return panels.numbers(
        "Run",
        "The scenario that was started last, how faithfully it follows the published set-up, and the cell being "
        "measured. Valid: judged at its end; without a required treatment a run proves nothing (*Treatments* below). "
        "A load is on if it takes more than a twentieth of a processor.",
        {**state, "valid": f"{valid} or on () 2 * {active}", **loads},
        mappings=[yes_or_no("ended", "measuring", no_colour="text")],
        overrides=[
            override("valid", {"mappings": [yes_or_no("INVALID", "yes", neither="at its end")]}),
            *(override(load, {"mappings": [yes_or_no("off", "on", no_colour="text")]}) for load in loads),
        ],
    )


def _cdf_of_metrics() -> panels.Panel:
    shares = cdf('metric!="send lateness"', CURRENT)
    curves = whole(f"label_replace(max by (metric, le) ({shares}), 'series', '$1', 'metric', '(.*)')")
    return cdf_panel(
        "Latencies of the cell being measured",
        "How to read it: at 10 ms the curve's height is the share of messages answered within 10 ms. Of the loop, T is "
        "the whole time from request to answer, R the part spent at the robot, O = T - R the rest: broker, network, "
        "queues. R of the virtual robot is fitted to the published mean. A curve further left is faster, a steeper one "
        "steadier. It ends below 1 where messages are lost.",
        f"max by (series, le) ({curves})",
        x_label="latency of this cell",
        x_min_s=None,
        x_max_s=None,
        overrides=metric_overrides(),
    )


def _quantile(share: str, selector: str) -> str:
    buckets = f"max by (metric, le) (lab_latency_seconds_bucket{{{selector}}}\nand {RUNNING})"
    return f"histogram_quantile({share}, {buckets})"


def _quantiles() -> panels.Panel:
    return panels.graph(
        "Running quantiles",
        "Of all answers of the cell so far, at most 5 % off. p99 = 20 ms: one message in a hundred took longer than "
        "20 ms. Watch p99 if p50 does not move: load shows in the tail first.",
        {f"{{{{metric}}}} {name}": _quantile(q, 'metric!="send lateness"') for name, q in QUANTILES.items()},
        unit="s",
        label="latency (logarithmic)",
        logarithmic=True,
        overrides=[*metric_overrides(), THIN_MEDIAN],
    )


def _made_of() -> panels.Panel:
    return panels.graph(
        "What is O made of?",
        "The mean O of the cell so far, part by part, by the kernel's time stamps. Wake-up: a message is there and its "
        "program waits for a processor. Send path: from the program to the network. "
        "Stacked in the legend's order. Which part grows under load?",
        {name: f'max(lab_figure{{figure="O: {part}"}}\nand {RUNNING})' for part, (name, _) in OVERHEAD_PARTS.items()},
        unit="µs",
        label="mean of the cell so far",
        stacked=True,
        overrides=colours(dict(OVERHEAD_PARTS.values())),
        no_value=LOOP_ONLY,
    )


def _lateness() -> panels.Panel:
    return panels.graph(
        "Send lateness: is the measurement itself on time?",
        "Each request is due at a fixed time, whatever came back (pacing sleep: an interval after the last one left). "
        "This is how much later it left. Above the dashed line (5 ms, half of the shortest interval) the sender itself "
        "is disturbed: do not trust the other panels.",
        {name: _quantile(q, 'metric="send lateness"') for name, q in QUANTILES.items()},
        unit="s",
        label="lateness (logarithmic)",
        logarithmic=True,
        warn_at=0.005,
        overrides=[*colours(QUANTILE_COLOURS), THIN_MEDIAN],
    )


def _misses() -> panels.Panel:
    late, of = 'lab_figure{figure="beyond interval"}', "lab_messages_total"
    return panels.graph(
        "Deadline misses",
        "Share of the cell's messages so far without an answer within one interval of being due: a control loop has no "
        "new value when it needs one. It counts from due, so a late sender shows here and not in T. Lost ones count.",
        {"beyond one interval": f"sum({late}\nand {RUNNING})\n/ sum({of}\nand {RUNNING})"},
        unit="percentunit",
        label="share of messages",
        no_value=LOOP_ONLY,
    )


def _treatments() -> panels.Panel:
    verdict = {"mappings": [yes_or_no("NO", "yes", neither="no")], "custom.cellOptions": {"type": "color-text"}}
    required, other = (
        f"max by (what, wanted, found, required) ({last(f'lab_treatment_verified{selector}')} and {NEWEST})"
        for selector in ('{required="true"}', '{required="false"}')
    )
    return listing(
        "Treatments: wanted and found",
        "What this scenario wants of the machine, and what was found on the live processes. "
        "A required one that was not found makes the run invalid.",
        # 2 where it does not matter.
        f"{required}\nor ({other} == 1)\nor {other} + 2",
        columns={"what": "treatment", **{one: one for one in ("wanted", "found", "required")}, "Value": "as wanted"},
        overrides=[override("as wanted", verdict), *widths({"treatment": 330, "required": 80, "as wanted": 90})],
    )

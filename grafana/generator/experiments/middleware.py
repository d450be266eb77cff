"""IoT middleware: one dashboard, while devices load it and after."""

from typing import Any

from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import Panel, graph, numbers, parts
from generator.queries import by_stat, fresh_cells, joined, last, newest_run, or_named, padded, whole
from generator.styles import BAD, FIRST, GOOD, by_name, by_regex, colours
from generator.tables import SHARE, cdf_axis, matrix, xy_panel
from looplab.experiments.middleware import EXPERIMENT

RUNS = '{scenario=~"middleware|middleware-nodes"}'
# The labels of one cell.
CELL = "scenario, fidelity, placement, nodes, cores, where, devices"
CHOSEN = 'scenario=~"$scenario",fidelity=~"$fidelity"'
NOTHING_YET = "nothing measured yet: ./lab run middleware --quick"
FRESH = fresh_cells("middleware", "scenario, fidelity, placement, devices", RUNS)
NEWEST = newest_run(RUNS)
# The cell that is being measured, or was measured last.
CURRENT = "on (scenario, fidelity, placement, devices) (last_over_time(middleware_cell_current[$__range]) == 1)"
OUTCOMES = {"succeeded": GOOD, "failed": BAD, "unfinished": FIRST}
SERVICES = "|".join(role.name for role in EXPERIMENT.roles)
STATISTICS = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    return {"iot-middleware.json": _middleware()}


def _middleware() -> Dashboard:
    sent = "middleware_messages_sent_total"
    return dashboard(
        "looplab-middleware",
        "IoT middleware",
        "How many requests of simulated devices a middleware processes on more cores, more nodes, in containers.",
        [
            (4, [(12, _progress()), (12, _current())]),
            (11, [(12, _requests()), (12, _live_cdf())]),
            (11, [(12, _processed()), (12, _failed())]),
            (11, [(12, _times("0.5", "Figures 4, 5 and 14: median time at the client")), (12, _cpu_of_a_request())]),
            (10, [(12, _cpu()), (12, _memory())]),
            (12, [(24, _table())]),
        ],
        [
            choice("scenario", "Scenario", sent, "Cores and containers, or nodes behind a balancer.", ["middleware"]),
            choice("fidelity", "Fidelity", sent, "thesis: as published.", ["All"]),
        ],
        refresh="5s",
        since="24h",
    )


def _chosen(metric: str, more: str = "") -> str:
    return f"({last(metric + '{' + CHOSEN + (f',{more}' if more else '') + '}')} and {FRESH})"


def _named(expression: str) -> str:
    # One word: the legend leaves out the words that all names share.
    return joined(expression, "series", ["nodes", "cores", "where"], "$1x$2-$3")


def _over_devices(title: str, description: str, expression: str, y: dict[str, Any], y_label: str) -> Panel:
    curves = whole(f"max by (series, devices) ({_named(expression)})")
    return xy_panel(
        title,
        f"{description} 1x2-container: one node of two cores, in a container; the legend leaves out what all "
        "names share. A curve appears once it has all loads of the longest curve.",
        or_named(curves, "devices", "series", NOTHING_YET),
        row="devices",
        series="series",
        x={"unit": "none", "min": 0, "custom.axisLabel": "devices"},
        y={"min": 0, **y},
        y_label=y_label,
        overrides=[],
        point_size=8,
    )


def _processed() -> Panel:
    return _over_devices(
        "Figures 2, 3 and 10: processed requests",
        "Requests that succeeded in a second, mean of the repetitions. The load with the highest point is the optimal "
        "one. Published: more cores move it to more devices, and bare metal is no better than a container.",
        _chosen("middleware_processed_per_second"),
        {"unit": "none"},
        "requests a second",
    )


def _failed() -> Panel:
    return _over_devices(
        "Figure 12: failed requests",
        "The share of the requests that ended with another answer than success, or with none. Published: below 2 % up "
        "to the optimal load.",
        _chosen("middleware_failed_ratio"),
        {"unit": "percentunit"},
        "failed requests",
    )


def _times(q: str, title: str) -> Panel:
    return _over_devices(
        title,
        "From sent to answered, of the requests that succeeded. Once it is overloaded, requests wait.",
        _chosen("middleware_latency_quantile_seconds", f'metric="sent_response",q="{q}"'),
        {"unit": "s"},
        "from sent to answered",
    )


def _cpu_of_a_request() -> Panel:
    return _over_devices(
        "Processor time of a request",
        "What a request that succeeds costs the middleware's services. A cold cache would show as a cost that falls "
        "with the load.",
        _chosen("middleware_cpu_seconds_per_request"),
        {"unit": "s"},
        "processor time",
    )


def _live_cdf() -> Panel:
    buckets = last('middleware_latency_seconds_bucket{le!="+Inf"}')
    counts = last("middleware_messages_sent_total")
    due = f"(max by ({CELL}) ({counts} and {FRESH}) > 0)"
    share = f"(max by ({CELL}, le) ({buckets}) and {CURRENT})\n/ on ({CELL}) group_left () {due}"
    named = joined(share, "series", ["devices", "placement"], "$1 devices, $2")
    return xy_panel(
        "CDF of the load that is measured now",
        "The share of all requests that were answered well within x of when they were due. It ends below 100 % by "
        "those that failed. The table has the quantiles of finished cells.",
        or_named(f"max by (series, le) ({named})", "le", "series", NOTHING_YET),
        row="le",
        series="series",
        x=cdf_axis("from due to answered", 0.0001, 10),
        y=SHARE,
        y_label="share of requests answered within x",
        overrides=[],
    )


def _requests() -> Panel:
    rates = {
        outcome: f'sum(rate(middleware_messages_total{{{CHOSEN},outcome="{outcome}"}}[30s]) and {CURRENT})'
        for outcome in OUTCOMES
    }
    return graph(
        "Requests by outcome",
        "Requests a second of the cell that is measured now. Devices keep their schedule: what an overloaded "
        "middleware does not answer fails, or is unfinished when the load ends.",
        rates,
        label="requests a second",
        overrides=colours(OUTCOMES),
        stacked=True,
        no_value=NOTHING_YET,
    )


def _cpu() -> Panel:
    return parts(
        "Processors used by each service",
        "1 is one whole processor. Devices are the load; the other services are the middleware, its data and nginx.",
        f'lab:part_cpu:cores{{part=~"{SERVICES}"}}',
        label="processors",
        stacked=True,
        no_value=NOTHING_YET,
    )


def _memory() -> Panel:
    return parts(
        "Memory of each service",
        "Resident memory of all its processes. Each node has services of its own.",
        f'lab_process_resident_memory_bytes{{part=~"{SERVICES}"}}',
        unit="bytes",
        label="memory",
        stacked=True,
        no_value=NOTHING_YET,
    )


def _outcome(name: str) -> str:
    return f'middleware_messages_total{{outcome="{name}"}}'


def _progress() -> Panel:
    counts = {
        "due": f"({last('middleware_messages_sent_total')} and {FRESH})",
        **{name: f"({last(_outcome(name))} and {FRESH})" for name in OUTCOMES},
    }
    return numbers(
        "The newest run",
        "Requests that were due so far, and what became of them.",
        {name: f"sum({count} and on (scenario, fidelity) {NEWEST})" for name, count in counts.items()},
        unit="none",
        no_value=NOTHING_YET,
    )


def _current() -> Panel:
    quantiles = {
        name: last(f'middleware_latency_quantile_seconds{{metric="response",q="{q}"}}')
        for name, q in (("p50", "0.5"), ("p99", "0.99"))
    }
    return numbers(
        "Response of the newest cell, from due",
        "Median and p99 of all requests of the cell that is measured now, or was last. There is no p99 if more than 1 "
        "% of the requests failed or had no answer, and no median if more than half did.",
        {
            f"{{{{devices}}}} devices, {{{{placement}}}}, {name}": f"max by (devices, placement) ({one} and {CURRENT})"
            for name, one in quantiles.items()
        },
        unit="s",
        no_value=NOTHING_YET,
    )


def _table() -> Panel:
    figures = {
        "n": _chosen("middleware_messages_total", 'outcome="succeeded"'),
        **{
            name: _chosen("middleware_latency_quantile_seconds", f'metric="response",q="{q}"')
            for name, q in STATISTICS.items()
        },
        "in the middleware": _chosen("middleware_latency_quantile_seconds", 'metric="server",q="0.5"'),
        "cpu": _chosen("middleware_cpu_seconds_per_request"),
        "failed": _chosen("middleware_failed_ratio"),
        "MiB": _chosen("middleware_memory_bytes", 'when="start"') + " / 1048576",
    }
    labelled = joined(f"({by_stat(CELL, figures)})", "series", ["placement", "devices"], "$1, $2 devices")
    ordered = f'label_join({padded(labelled, "load", "devices")}, "order", " ", "placement", "load")'
    return matrix(
        "Loads in numbers",
        "n counts the requests that succeeded; p50 to p99 are from due to answered; cpu is the processor time of a "
        "request, MiB the memory at the start. ∞: more requests failed. The report gives intervals and verdicts.",
        f"max by (series, order, stat) ({ordered})",
        columns=list(figures),
        order="order",
        row_px=330,
        no_value=NOTHING_YET,
        row_title="cell",
        overrides=[
            # A quantile is missing where more requests have no good answer.
            by_regex("/^p[0-9]+$/", {"noValue": "∞"}),
            by_regex("/^failed$/", {"unit": "percentunit", "decimals": 2}),
            by_name("in the middleware", {"custom.width": 140}),
            by_regex("/^MiB$/", {"unit": "none", "decimals": 0}),
        ],
    )

"""Serial, TCP and MQTT to a microcontroller: one dashboard, during a run and after it."""

from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import Panel, numbers
from generator.queries import by_stat, fresh_cells, joined, last, newest_run, or_named
from generator.styles import by_name, by_regex, dashed
from generator.tables import SHARE, cdf_axis, matrix, xy_panel

CELL = "scenario, fidelity, client, language, transport, placement, qos"
NAME = ["client", "fidelity"]
CHOSEN = 'fidelity=~"$fidelity",client=~"$client"'
SCENARIOS = 'scenario=~"asip|asip-throughput"'
NOTHING_YET = "nothing measured yet: ./lab run asip --quick"
NO_WAVE_YET = "no wave yet: ./lab run asip-throughput --quick"
FITTED = "Clients that end with bridge or broker are behind a delay that was fitted or chosen."
QUANTILES = {"p50": "0.5", "p95": "0.95", "max": "1"}
FRESH = fresh_cells("asip", "scenario, fidelity, client", f"{{{SCENARIOS}}}")
NEWEST = newest_run(f"{{{SCENARIOS}}}")


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    return {"serial-tcp-mqtt.json": _serial_tcp_mqtt()}


def _serial_tcp_mqtt() -> Dashboard:
    sent = "asip_messages_sent_total"
    return dashboard(
        "looplab-asip",
        "Serial, TCP and MQTT",
        "How fast a microcontroller answers a client in Python or Java, over serial, TCP and MQTT.",
        [
            (4, [(12, _progress()), (12, _current())]),
            (12, [(12, _live_cdf()), (12, _tracked())]),
            (9, [(15, _latencies()), (9, _frequencies())]),
        ],
        [
            choice("fidelity", "Fidelity", sent, "thesis: as published; corrected: no known artefacts.", ["All"]),
            choice("client", "Client", sent, "Language and transport of the client, and what runs elsewhere.", ["All"]),
        ],
        refresh="5s",
        since="24h",
    )


def _chosen(metric: str, more: str = "") -> str:
    return f"({last(metric + '{' + CHOSEN + (f',{more}' if more else '') + '}')} and {FRESH})"


def _measured_last(scenario: str) -> str:
    """Return a condition: the cell of that scenario that is being measured, or was measured last."""
    selector = f'asip_cell_current{{scenario="{scenario}"}}'
    return f"on (scenario, fidelity, client) ({last(selector)} == 1)"


def _progress() -> Panel:
    lost = last('asip_messages_total{outcome="lost"}')
    counts = {
        "made": f"({last('asip_messages_sent_total')} and {FRESH})",
        "planned": last(f"loop_run_messages_planned{{{SCENARIOS}}}"),
        "lost": f"({lost} and {FRESH})",
    }
    return numbers(
        "The newest run",
        "Tests made so far, how many the run will make at most, and how many had no answer. In asip-throughput a test "
        "is a step of the search, and a lost one is a wave that was not tracked.",
        {name: f"sum({count} and on (scenario, fidelity) {NEWEST})" for name, count in counts.items()},
        unit="none",
        no_value=NOTHING_YET,
    )


def _current() -> Panel:
    quantiles = {
        name: last(f'asip_latency_quantile_seconds{{metric="latency",q="{q}"}}')
        for name, q in (("p50", "0.5"), ("p99", "0.99"))
    }
    wire = last("asip_wire_seconds")
    return numbers(
        "Latency of the slowest client, and the wire",
        "Median and p99 of the slowest client of the newest run of asip; the time of the bytes of one test on the "
        "wire is known once the run has ended.",
        {
            **{name: f"max({found} and {FRESH})" for name, found in quantiles.items()},
            "wire": f"max({wire} and {FRESH})",
        },
        unit="s",
        no_value=NOTHING_YET,
    )


def _live_cdf() -> Panel:
    buckets = last('asip_latency_seconds_bucket{le!="+Inf",metric="latency"}')
    counts = last("asip_messages_sent_total")
    sent = f"(max by ({CELL}) ({counts} and {FRESH}) > 0)"
    share = f"(max by ({CELL}, le) ({buckets}) and {_measured_last('asip')})\n/ on ({CELL}) group_left () {sent}"
    named = joined(share, "series", NAME, "$1 $2")
    return xy_panel(
        "CDF of the client that is measured now",
        "The share of tests answered within x, growing while the client is measured. Clients that are done are not "
        "drawn: the table has their quantiles.",
        or_named(f"max by (series, le) ({named})", "le", "series", NOTHING_YET),
        row="le",
        series="series",
        x=cdf_axis("from setting a pin to its notice", 0.001, 1),
        y=SHARE,
        y_label="share of tests answered within x",
        overrides=[],
    )


def _tracked() -> Panel:
    # One client: each has frequencies of its own, and the panel draws a missing value at 0.
    newest = f"{last('asip_step_tracked_ratio')} and {FRESH} and {_measured_last('asip-throughput')}"
    stored = f"topk by (frequency_hz) (1, {_chosen('asip_step_tracked_ratio')} and on (client, fidelity) {_first()})"
    named = joined(f"(({newest}) or ({stored}))", "series", NAME, "$1 $2")
    return xy_panel(
        "Share of edges tracked, by frequency",
        "Edges of pin 13 over edges of pin 2 for one client: the one measured now, else the fastest of those "
        "chosen above. 100 % is tracked. Choose another client to see its curve.",
        or_named(f"max by (series, frequency_hz) ({named})", "frequency_hz", "series", NO_WAVE_YET),
        row="frequency_hz",
        series="series",
        # HIGH_HZ of the search; without it, the share's maximum falls on x.
        x={"unit": "hertz", "min": 0, "max": 400, "custom.axisLabel": "square wave on pin 2"},
        y=SHARE,
        y_label="edges out over edges in",
        overrides=[by_regex("/corrected$/", dashed([8, 6]))],
        point_size=8,
    )


def _first() -> str:
    """Return the one client, of those chosen, that tracks the highest frequency."""
    return f"topk(1, {_chosen('asip_tracked_hz')})"


def _latencies() -> Panel:
    mean = "asip_latency_mean_seconds"
    client = 'metric="latency"'
    answered = 'outcome=~"answered|late",scenario="asip"'
    quantiles = "asip_latency_quantile_seconds"
    figures = {
        "n": f"sum by ({CELL}) ({_chosen('asip_messages_total', answered)})",
        "mean": _chosen(mean, client),
        **{name: _chosen(quantiles, f'{client},q="{q}"') for name, q in QUANTILES.items()},
        "edge": _chosen(mean, 'metric="edge"'),
        "wire": _chosen("asip_wire_seconds"),
    }
    named = joined(f"({by_stat(CELL, figures)})", "series", NAME, "$1 $2")
    return matrix(
        "Figures 3.24 and 3.25: latency",
        "n counts the tests answered, late ones included. mean to max: from setting the pin to its notice, by the "
        "client. edge: mean from an edge of pin 2 to that of pin 13, by the oscilloscope. wire: the time of the bytes "
        "alone. " + FITTED,
        f"max by (series, stat) ({named})",
        columns=list(figures),
        no_value=NOTHING_YET,
        row_title="client",
    )


def _frequencies() -> Panel:
    figures = {"tracked": _chosen("asip_tracked_hz"), "wire": _chosen("asip_wire_hz")}
    named = joined(f"({by_stat(CELL, figures)})", "series", NAME, "$1 $2")
    return matrix(
        "Figures 3.20 and 3.21: throughput",
        "The highest frequency of the square wave that the client copied without missing an edge, and the frequency "
        "that fills the wire. Published: up to 200 for Java and 90 for Python over serial. " + FITTED,
        f"max by (series, stat) ({named})",
        columns=list(figures),
        no_value=NO_WAVE_YET,
        row_title="client",
        overrides=[by_name(name, {"unit": "hertz", "decimals": 1}) for name in figures],
    )

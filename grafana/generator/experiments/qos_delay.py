"""Network delay and QoS: one dashboard, during the sweep and after it."""

from typing import Any

from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import Panel, numbers
from generator.queries import by_stat, fresh_cells, joined, last, newest_run, or_named, padded, whole
from generator.styles import CORRECTED, Override, by_regex, fixed, line, other_shade
from generator.tables import SHARE, cdf_axis, matrix, xy_panel

# The labels of one cell.
CELL = "fidelity, pair, links, end_to_end_ms, qos, network"
CELL_NAME = ["pair", "qos", "network", "fidelity"]
# What the figures of the source are about.
USUAL = 'network="normal"'
CHOSEN = 'fidelity=~"$fidelity",qos=~"$qos"'
# Told apart by dash as well (palette of Okabe and Ito).
QOS_STYLES = {"0": ("#0072B2", None), "1": ("#D55E00", [8, 6]), "2": ("#009E73", [2, 6])}
NOTHING_YET = "nothing measured yet: ./lab run qos-delay --quick"
STATISTICS = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
RECEIVED = 'outcome=~"answered|late"'
NEWEST = newest_run('{scenario="qos-delay"}')
FRESH = fresh_cells("qos_delay", "fidelity, pair, qos, network", '{scenario="qos-delay"}')
# The cell that is being measured, or was measured last.
CURRENT = "on (fidelity, pair, qos, network) (last_over_time(qos_delay_cell_current[$__range]) == 1)"


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    return {"qos-and-delay.json": _qos_and_delay()}


def _qos_and_delay() -> Dashboard:
    sent = "qos_delay_messages_sent_total"
    return dashboard(
        "looplab-delay",
        "QoS and delay",
        "How long a message takes from publisher to subscriber when both links have a delay.",
        [
            (4, [(12, _progress()), (12, _current())]),
            (12, [(12, _latency()), (12, _ratio())]),
            (12, [(12, _segments()), (12, _live_cdf())]),
            (11, [(8, _places()), (16, _table())]),
        ],
        [
            choice("fidelity", "Fidelity", sent, "thesis: as published. corrected: TCP_NODELAY on.", ["All"]),
            choice("qos", "QoS", sent, "MQTT quality of service.", ["All"]),
        ],
        refresh="5s",
        since="24h",
    )


def _named(expression: str) -> str:
    # One word: the legend leaves out the words that all names share.
    return joined(expression, "series", ["qos", "fidelity"], "QoS$1 $2")


def _ordered(expression: str) -> str:
    """Give each series `order`: by the delay of both links, then of the first, QoS and fidelity."""
    numbers = padded(padded(expression, "both", "end_to_end_ms"), "first", "pair")
    return f'label_join({numbers}, "order", " ", "both", "first", "qos", "fidelity")'


def _against_delay(title: str, description: str, metric: str, y: dict[str, Any], y_label: str) -> Panel:
    measured = _chosen(metric, f'links="symmetrical",{USUAL}')
    curves = whole(f"max by (series, end_to_end_ms) ({_named(measured)})")
    return xy_panel(
        title,
        f"{description} A curve appears once it has all delays of the longest curve; choose one fidelity above to "
        "see a shorter curve.",
        or_named(curves, "end_to_end_ms", "series", NOTHING_YET),
        row="end_to_end_ms",
        series="series",
        x={"unit": "ms", "min": 0, "custom.axisLabel": "both links together, as wanted"},
        y={"min": 0, **y},
        y_label=y_label,
        overrides=_looks(),
        point_size=8,
    )


def _looks() -> list[Override]:
    styles = QOS_STYLES.items()
    return [
        *(by_regex(f"/QoS{qos}/", line(colour, dash)) for qos, (colour, dash) in styles),
        *(
            by_regex(f"/QoS{qos} corrected$/", {"color": fixed(other_shade(colour)), **CORRECTED})
            for qos, (colour, _dash) in styles
        ),
    ]


def _latency() -> Panel:
    return _against_delay(
        "Figure 3a: mean latency, both links alike",
        "From publisher to subscriber, against the delay of the way. One way would be the diagonal. "
        "Thin lines with squares: corrected (TCP_NODELAY on).",
        "qos_delay_latency_mean_seconds",
        {"unit": "s"},
        "publisher to subscriber",
    )


def _ratio() -> Panel:
    return _against_delay(
        "Figure 3b: latency over end-to-end delay",
        "1: a message goes straight through. 2: it waits for a whole round trip. Published: 1 for QoS 0 and 1 at 4 ms, "
        "2 beyond, at least 4 and up to more than 7 for QoS 2.",
        "qos_delay_latency_ratio",
        {"unit": "none"},
        "end-to-end delays",
    )


def _segments() -> Panel:
    return _against_delay(
        "Figure 4: MQTT packets in a TCP segment",
        "How many packets of the publisher leave together, on average. Nagle's algorithm collects them while an "
        "acknowledgement is on its way; with TCP_NODELAY each leaves alone.",
        "qos_delay_packets_per_segment",
        {"unit": "none"},
        "packets in a segment",
    )


def _live_cdf() -> Panel:
    buckets = last('qos_delay_latency_seconds_bucket{le!="+Inf"}')
    counts = last("qos_delay_messages_sent_total")
    sent = f"(max by ({CELL}) ({counts} and {FRESH}) > 0)"
    share = f"(max by ({CELL}, le) ({buckets}) and {CURRENT})\n/ on ({CELL}) group_left () {sent}"
    named = joined(share, "series", CELL_NAME, "links $1 ms QoS $2 $3 $4")
    return xy_panel(
        "CDF of the cell that is measured now",
        "The share of messages received within x, growing while the cell is measured. Finished cells "
        "are not drawn: the table has their quantiles.",
        or_named(f"max by (series, le) ({named})", "le", "series", NOTHING_YET),
        row="le",
        series="series",
        x=cdf_axis("publisher to subscriber", 0.001, 10),
        y=SHARE,
        y_label="share of messages received within x",
        overrides=[],
    )


def _places() -> Panel:
    ratio = _chosen("qos_delay_latency_ratio", USUAL)
    # Only ways that were measured with the broker at more than one place.
    several = f"count by (fidelity, end_to_end_ms, qos) ({ratio}) > 1"
    chosen = f"{ratio} and on (fidelity, end_to_end_ms, qos) ({several})"
    named = _ordered(joined(chosen, "place", ["end_to_end_ms", "pair", "fidelity"], "$2 ms, $3"))
    return matrix(
        "Figure 5: the broker's place",
        "Latency over delay for one end-to-end delay, the broker nearer to the publisher or to the subscriber "
        "(delay publisher-broker, broker-subscriber). Published: the place does not matter.",
        f"max by (place, order, qos) ({named})",
        row="place",
        order="order",
        column="qos",
        columns=["0", "1", "2"],
        no_value=NOTHING_YET,
        row_title="links",
        row_px=240,
        overrides=[by_regex("/^[012]$/", {"unit": "none", "decimals": 2})],
    )


def _table() -> Panel:
    figures = {
        "n": f"sum by ({CELL}) ({_chosen('qos_delay_messages_total', RECEIVED)})",
        "delay": _chosen("qos_delay_end_to_end_seconds"),
        "avg": _chosen("qos_delay_latency_mean_seconds"),
        **{name: _chosen("qos_delay_latency_quantile_seconds", f'q="{q}"') for name, q in STATISTICS.items()},
    }
    named = _ordered(joined(f"({by_stat(CELL, figures)})", "series", CELL_NAME, "$1 ms QoS $2 $3 $4"))
    return matrix(
        "Cells in numbers",
        "n counts the messages received, late ones included; delay is that of both links as it was made. "
        "The report gives intervals and verdicts.",
        f"max by (series, order, stat) ({named})",
        columns=list(figures),
        order="order",
        no_value=NOTHING_YET,
        row_title="links",
        row_px=240,
    )


def _progress() -> Panel:
    lost = last('qos_delay_messages_total{outcome="lost"}')
    counts = {
        "sent": f"({last('qos_delay_messages_sent_total')} and {FRESH})",
        "planned": last('loop_run_messages_planned{scenario="qos-delay"}'),
        "lost": f"({lost} and {FRESH})",
    }
    return numbers(
        "The newest sweep",
        "Messages sent so far, and how many the sweep will send. A message counts as lost if it was not "
        "received within two deadlines.",
        {name: f"sum({count} and on (fidelity) {NEWEST})" for name, count in counts.items()},
        unit="none",
        no_value=NOTHING_YET,
    )


def _current() -> Panel:
    quantiles = {
        name: last(f'qos_delay_latency_quantile_seconds{{qos=~"$qos",q="{q}"}}')
        for name, q in (("p50", "0.5"), ("p99", "0.99"))
    }
    return numbers(
        "Median and p99 of the newest sweep's slowest links",
        "The slowest of its links so far, at each quality of service chosen above, whatever fidelity is chosen.",
        {
            f"QoS {{{{qos}}}} {name}": f"max by (qos) ({found} and {FRESH} and on (fidelity) {NEWEST})"
            for name, found in quantiles.items()
        },
        unit="s",
        no_value=NOTHING_YET,
    )


def _chosen(metric: str, more: str = "") -> str:
    return f"({last(metric + '{' + CHOSEN + (f',{more}' if more else '') + '}')} and {FRESH})"

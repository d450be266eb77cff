"""Digital twin: one dashboard, the queue and the rates from Prometheus, what is stored from the database itself."""

from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import Panel, graph, lines, numbers, sql_rate, sql_rows
from generator.queries import by_stat, fresh_cells, joined, last, newest_run, or_named, padded
from generator.styles import BAD, FIRST, GOOD, by_name, by_regex, line
from generator.tables import SHARE, cdf_axis, matrix, xy_panel

# Asked as a user that may only read.
DATABASE = "looplab-twin-database"
# The labels of one cell.
CELL = "scenario, fidelity, cell, interval_ms, qos"
CHOSEN = 'scenario=~"$twin",fidelity=~"$fidelity"'
NOTHING_YET = "nothing measured yet: ./lab run twin --quick"
NEWEST = newest_run('{scenario=~"twin.*"}')
FRESH = fresh_cells("twin", "scenario, fidelity, cell, qos", '{scenario=~"twin.*"}')
CURRENT = "on (scenario, fidelity, cell, qos) (last_over_time(twin_cell_current[$__range]) == 1)"
_GROUP = "fidelity, brokers, placement"
_BROKER_RATES = 'twin_broker_rate_per_second{scenario="twin-brokers",fidelity=~"$fidelity"}'
STATISTICS = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    return {"digital-twin.json": _digital_twin()}


def _digital_twin() -> Dashboard:
    sent = "twin_messages_sent_total"
    return dashboard(
        "looplab-twin",
        "Digital twin",
        "Messages that wait between device and database, and what limits their rate.",
        [
            (4, [(12, _progress()), (12, _rates())]),
            (10, [(12, _queue()), (12, _in_and_out())]),
            (12, [(12, _delay_cdf()), (12, _by_interval())]),
            (9, [(8, _twin()), (8, _stored_rate()), (8, _brokers())]),
            (12, [(24, _table())]),
            (8, [(24, _hosts())]),
        ],
        [
            choice("twin", "Scenario", sent, "twin, twin-brokers or twin-limit.", ["All"], of="scenario"),
            choice(
                "fidelity", "Fidelity", sent, "thesis: as the group's code. corrected: no sleep, one session.", ["All"]
            ),
        ],
        refresh="5s",
        since="15m",
    )


def _progress() -> Panel:
    fates = {
        "sent": last("twin_messages_sent_total"),
        **{outcome: last(f'twin_messages_total{{outcome="{outcome}"}}') for outcome in ("stored", "lost", "refused")},
    }
    counts = {name: f"({found} and {FRESH})" for name, found in fates.items()}
    return numbers(
        "The newest run",
        "Messages sent so far and their fates. Stored: the database has confirmed the commit. Refused: it does not "
        "have the form of a device's message, or the database rejects it. A message still on its way has no fate yet.",
        {name: f"sum({count} and on (scenario, fidelity) {NEWEST})" for name, count in counts.items()},
        unit="none",
        no_value=NOTHING_YET,
    )


def _rates() -> Panel:
    return numbers(
        "Waiting now, and stored a second",
        "Messages of the running cell that were sent and not yet stored, and how many were stored a second over the "
        "last ten seconds. Published: 15 a second at most.",
        {
            "waiting": "sum(twin_queue_length) or on () vector(0)",
            "stored a second": _rate("twin_messages_total", 'outcome="stored"'),
        },
        unit="none",
        no_value=NOTHING_YET,
    )


def _queue() -> Panel:
    queue = joined(f"twin_queue_length{{{CHOSEN}}}", "series", ["cell", "qos"], "$1, QoS $2")
    # Without a run nothing waits.
    nothing = 'label_replace(vector(0), "series", "no run now", "", "")'
    return graph(
        "Queue: sent and not yet stored",
        "Sends minus commits of the running cell, once a second. A queue that grows while devices send means that "
        "more comes in than is stored.",
        {"{{series}}": f"max by (series) ({queue}) or on () {nothing}"},
        label="messages",
        unit="none",
        no_value=NOTHING_YET,
    )


def _in_and_out() -> Panel:
    return lines(
        "Rate in and out",
        "Messages sent and stored a second, over the last ten seconds. The two lines part where a queue forms.",
        {
            "in": (_rate("twin_messages_sent_total", CHOSEN), FIRST),
            "out": (_rate("twin_messages_total", f'{CHOSEN},outcome="stored"'), GOOD),
            "refused": (_rate("twin_messages_total", f'{CHOSEN},outcome="refused"'), BAD),
        },
        label="messages a second",
        unit="none",
        no_value=NOTHING_YET,
    )


def _rate(counter: str, selector: str) -> str:
    """Return a rate over ten seconds: 0 where nothing is sent."""
    return f"sum(rate({counter}{{{selector}}}[10s])) or on () vector(0)"


def _delay_cdf() -> Panel:
    buckets = last('twin_latency_seconds_bucket{le!="+Inf"}')
    sent = f"(max by ({CELL}) ({last('twin_messages_sent_total')} and {FRESH}) > 0)"
    share = f"(max by ({CELL}, le) ({buckets}) and {CURRENT})\n/ on ({CELL}) group_left () {sent}"
    named = joined(share, "series", ["cell", "qos", "fidelity"], "$1 QoS $2 $3")
    return xy_panel(
        "Storage delay of the cell that is measured now",
        "The share of messages stored within x after they were sent, growing while the cell is measured. Finished "
        "cells are not drawn: the table has their quantiles.",
        or_named(f"max by (series, le) ({named})", "le", "series", NOTHING_YET),
        row="le",
        series="series",
        x=cdf_axis("sent to stored", 0.0001, 100),
        y=SHARE,
        y_label="share of messages stored within x",
        overrides=[],
    )


def _by_interval() -> Panel:
    measured = f"""({last('twin_queue_max{scenario="twin",fidelity=~"$fidelity"}')} and {FRESH})"""
    named = joined(measured, "series", ["write_mode", "qos", "fidelity"], "$1 QoS$2 $3")
    return xy_panel(
        "Figure 1: longest queue by interval",
        "One broker. Published: a queue at every interval below 67 ms, none above. The report draws the queue over "
        "time.",
        or_named(f"max by (series, interval_ms) ({named})", "interval_ms", "series", NOTHING_YET),
        row="interval_ms",
        series="series",
        x={"unit": "ms", "min": 0, "custom.axisLabel": "interval between two messages"},
        y={"unit": "none", "min": 0},
        y_label="messages",
        overrides=[by_regex("/^published/", line(FIRST, None))],
        point_size=8,
    )


def _twin() -> Panel:
    return sql_rows(
        "The twin: last value of each device",
        "What the database holds of each device: its last temperature, the number of that message and when it was "
        "stored. Asked of PostgreSQL by a user that may only read.",
        "SELECT device, temperature_c AS temperature, sequence AS message, stored_at AS stored\n"
        "FROM twin_state ORDER BY device",
        database=DATABASE,
        no_value=NOTHING_YET,
        overrides=[
            by_name("temperature", {"unit": "celsius", "decimals": 1}),
            by_name("stored", {"unit": "time:HH:mm:ss"}),
        ],
    )


def _stored_rate() -> Panel:
    return sql_rate(
        "Rows stored a second, by the database",
        "Counted in the table itself, so it holds whatever this lab's own counters say.",
        "SELECT date_trunc('second', stored_at) AS time, count(*) AS rows\n"
        "FROM message WHERE $__timeFilter(stored_at) GROUP BY 1 ORDER BY 1",
        database=DATABASE,
        label="rows a second",
        no_value=NOTHING_YET,
    )


def _brokers() -> Panel:
    rates = f"({last(_BROKER_RATES)} and {FRESH})"
    # Repetitions are cells of their own: each broker's mean first.
    each = f"avg by ({_GROUP}, broker) ({rates})"
    named = by_stat(_GROUP, {"each": f"avg by ({_GROUP}) ({each})", "total": f"sum by ({_GROUP}) ({each})"})
    series = joined(f"({named})", "series", ["brokers", "placement", "fidelity"], "$1 $2, $3")
    return matrix(
        "Figures 2 and 3: rate of each broker, and total",
        "Messages a second, mean of the repetitions. Published: 14.85 for one broker; each 13.84 and 12.02 for two and "
        "four in one machine, 13.50 and 12.68 with a machine each.",
        f"max by (series, stat) ({series})",
        columns=["each", "total"],
        no_value="nothing measured yet: ./lab run twin-brokers --quick",
        row_title="brokers",
        overrides=[by_regex("/^(each|total)$/", {"unit": "none", "decimals": 2})],
    )


def _table() -> Panel:
    figures = {
        "sent": _chosen("twin_messages_sent_total"),
        "stored": _chosen("twin_messages_total", 'outcome="stored"'),
        "queue": _chosen("twin_queue_max"),
        "drain": _chosen("twin_drained_seconds"),
        "out": _chosen("twin_rate_out_per_second"),
        "limit": _chosen("twin_limit_per_second"),
        **{name: _chosen("twin_latency_quantile_seconds", f'q="{q}"') for name, q in STATISTICS.items()},
    }
    named = joined(
        f"({by_stat(CELL, figures)})", "series", ["scenario", "cell", "qos", "fidelity"], "$1: $2, QoS $3, $4"
    )
    ordered = (
        f'label_join({padded(named, "first", "interval_ms")}, "order", " ", "scenario", "fidelity", "first", "cell")'
    )
    counts = {"unit": "none", "decimals": 0}
    return matrix(
        "Cells in numbers",
        "Of finished cells: the longest queue in messages, the time from the last message sent to the last one "
        "stored, messages stored a second, and quantiles of the time from sent to stored. Limit: the highest "
        "sustained rate that twin-limit found.",
        f"max by (series, order, stat) ({ordered})",
        columns=list(figures),
        order="order",
        no_value=NOTHING_YET,
        row_title="cell",
        row_px=440,
        overrides=[
            by_regex("/^(sent|stored|queue)$/", counts),
            by_name("out", {"unit": "none", "decimals": 1}),
            # Only searches have one.
            by_name("limit", {"unit": "none", "decimals": 1, "noValue": "–"}),
        ],
    )


def _hosts() -> Panel:
    counts = {outcome: _chosen("twin_device_messages_total", f'outcome="{outcome}"') for outcome in ("sent", "stored")}
    named = joined(f"({by_stat('host, cell, fidelity', counts)})", "series", ["host", "cell"], "$1: $2")
    return matrix(
        "Messages of each host",
        "Of finished cells on a Swarm: what the device worker of each node sent, and what the database has of it.",
        f"max by (series, stat) ({named})",
        columns=list(counts),
        no_value="no Swarm (docs/many-hosts.md): ./lab run twin-brokers --quick has one machine",
        row_title="host and cell",
        overrides=[by_regex("/^(sent|stored)$/", {"unit": "none", "decimals": 0})],
    )


def _chosen(metric: str, more: str = "") -> str:
    return f"({last(metric + '{' + CHOSEN + (f',{more}' if more else '') + '}')} and {FRESH})"

"""Dashboard: what a scenario does to the lab's parts and to the machine."""

from generator.dashboard import Dashboard, dashboard
from generator.panels import graph, numbers, parts
from generator.styles import BAD, FIRST, GOOD, LIGHT, SECOND, colours, dashed, fixed, line, override, widths, yes_or_no
from generator.tables import listing

_MODES = {"user": FIRST, "system": SECOND, "softirq": "#C72375", "iowait": "#C27C1A", "steal": "#777711"}
_LIMIT_LINE = {"color": fixed(BAD), "custom.stacking": {"mode": "none"}, "custom.fillOpacity": 0, **dashed([10, 10])}


def _needed(metric: str, fault: str) -> str:
    """Return a query: 1 if the part is up, 0 if it is down and a run needs it, 2 if it is down and none does."""
    return f'max({metric} == 1) or max(0 * lab:fault{{fault="{fault}"}}) or max({metric}) + 2'


_UP = {
    "broker": _needed("lab_broker_up", "broker down"),
    "bridge": _needed("lab_bridge_online", "bridge offline"),
    "robot": _needed("lab_robot_online", "robot offline"),
    "exporter": 'max(up{job="live"})',
}
_PARTS = numbers(
    "Parts",
    "Look for red: a part that is down while a run needs it. The broker reports bridge and robot: without a broker "
    "their state is unknown. Between runs no part is needed.",
    {**_UP, "{{part}} (processes)": "max by (part) (lab_processes) > 0"},
    overrides=[override(name, {"mappings": [yes_or_no("down", "up", neither="not needed")]}) for name in _UP],
)
_PROCESSORS = [
    graph(
        "The machine's processors",
        "Processor time by kind, stacked in the legend's order; the dashed line is all processors. At that line "
        "every task must wait, also the control loop. softirq is the network's share.",
        {"{{mode}}": 'max by (mode) (lab:host_cpu:cores{mode!="idle"})', "all processors": "max(lab_host_cpus)"},
        label="processors",
        stacked=True,
        overrides=[*colours(_MODES), override("all processors", _LIMIT_LINE)],
    ),
    parts(
        "Processors used by each part",
        "1 is one whole processor. Stress and flood are the disturbance, the exporter is the cost of observing. "
        "Stacked in the legend's order.",
        "lab:part_cpu:cores",
        label="processors",
        stacked=True,
    ),
]
_BESIDE = [
    graph(
        "Tasks that want a processor",
        "Tasks that run or wait at the moment of the scrape, and the average over one minute. "
        "More tasks than processors means waiting.",
        {
            "now": "max(lab_host_runnable)",
            "average of 1 min": "max(lab_host_load1)",
            "processors": "max(lab_host_cpus)",
        },
        label="tasks",
        overrides=[
            override("now", line(LIGHT)),
            override("average of 1 min", line(FIRST, [18, 6])),
            override("processors", _LIMIT_LINE),
        ],
    ),
    graph(
        "Messages through the broker",
        "PUBLISH packets a second, in and out. No line: no broker runs.",
        {"in": "max(lab:broker_publish_received:per_second)", "out": "max(lab:broker_publish_sent:per_second)"},
        label="packets a second",
        overrides=[override("in", line(GOOD)), override("out", line(SECOND, [8, 6]))],
    ),
    graph(
        "Held and dropped by the broker",
        "Held: queued, in flight and retained. Dropped ones are lost for their subscriber.",
        {"held": "max(lab_broker_stored_messages)", "dropped": "max(lab_broker_publish_dropped_total)"},
        label="messages",
        overrides=[override("held", line(FIRST)), override("dropped", line(BAD, [2, 6]))],
    ),
    graph(
        "Clients of the broker",
        "Four of the loop as published: controller (publisher and subscriber), bridge, exporter. "
        "The flood adds up to a hundred.",
        {"connected": "max(lab_broker_clients_connected)"},
        label="clients",
    ),
]
_REST = [
    graph(
        "What the bridge counts",
        "Merged: answers of the robot that came in one burst and count as one (the published loss at 10 ms). "
        "Timeouts: the robot did not answer.",
        {"{{event}}": "max by (event) (lab_bridge_events_total)"},
        label="messages since the bridge's start",
    ),
    parts(
        "Memory of each part",
        "Resident memory, as the kernel counts it.",
        "lab_process_resident_memory_bytes",
        unit="bytes",
        label="memory",
    ),
    listing(
        "Alerts now",
        "Empty is good. Prometheus (Alerts) shows the remedy of each alert.",
        'max by (alertname, scenario, cell) (ALERTS{alertstate="firing"})',
        columns={"alertname": "alert", "scenario": "scenario", "cell": "cell"},
        no_value="no alert: all is well",
        # An alert about no scenario has an empty cell, not the words for no alert.
        overrides=[*widths({"alert": 185, "scenario": 95, "cell": 120}), override("scenario", {"noValue": "-"})],
    ),
]


def machine_and_parts() -> Dashboard:
    """Return the dashboard that explains those of the experiments."""
    return dashboard(
        "looplab-host",
        "Machine and parts",
        "What the stress, the flood and the lab itself do to the parts and to this machine.",
        [(5, [_PARTS]), (10, _PROCESSORS), (10, _BESIDE), (9, _REST)],
        [],
        refresh="2s",
        since="10m",
    )

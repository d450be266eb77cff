"""The metrics' names, their help, and Prometheus's text format (0.0.4).

Written by hand rather than with prometheus-client: what did not change between two scrapes is kept as text,
so that a scrape of a running cell costs about a millisecond (see bench/README-scrape.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Family -> (type, help), in the order in which they are served.
FAMILIES = {
    "loop_latency_seconds": ("histogram", "Latency of each answered message: T in all, R at the robot, O = T - R."),
    "loop_latency_quantile_seconds": (
        "gauge",
        "Exact quantile of the raw latencies; q=0 is the minimum, 1 the maximum.",
    ),
    "loop_messages_total": ("counter", "Messages by outcome; a lost one is counted two deadlines after it was sent."),
    "loop_messages_sent_total": ("counter", "Messages sent."),
    "loop_send_lateness_seconds": ("histogram", "How much later than due a message was sent."),
    "loop_send_lateness_quantile_seconds": ("gauge", "Exact quantile of the send lateness."),
    "loop_run_active": ("gauge", "1 while the run is measuring, 0 once it has ended."),
    "loop_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "loop_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
    "loop_run_info": ("gauge", "1; the labels are the run's effective parameters."),
    "loop_run_started_timestamp_seconds": ("gauge", "When the run was started, in Unix time."),
    "loop_run_messages_planned": ("gauge", "Messages the whole run will send."),
    "loop_run_valid": ("gauge", "1 where every required treatment was found as wanted."),
    "loop_treatment_verified": ("gauge", "1 where what was found is what was wanted."),
    "qos_delay_latency_seconds": ("histogram", "Publisher to subscriber: the cell that is measured now."),
    "qos_delay_latency_quantile_seconds": ("gauge", "Exact quantile of a cell's latency from publisher to subscriber."),
    "qos_delay_latency_mean_seconds": ("gauge", "Mean latency of a cell from publisher to subscriber."),
    "qos_delay_latency_ratio": ("gauge", "Mean latency over the mean end-to-end delay that was made."),
    "qos_delay_end_to_end_seconds": ("gauge", "Mean delay of both links together, as it was made."),
    "qos_delay_packets_per_segment": ("gauge", "Mean number of MQTT packets in a TCP segment of the publisher."),
    "qos_delay_messages_total": ("counter", "Messages of a cell by outcome."),
    "qos_delay_messages_sent_total": ("counter", "Messages of a cell that were sent."),
    "qos_delay_send_lateness_quantile_seconds": ("gauge", "Exact quantile of a cell's send lateness."),
    "qos_delay_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "lab_damaged_runs": ("gauge", "Folders in results/ that could not be read and are left out."),
    "lab_exporter_info": ("gauge", "1; port is where a browser on this machine reaches the exporter."),
    "lab_broker_up": ("gauge", "1 while the broker answers; the other broker metrics are absent while it does not."),
    "lab_broker_uptime_seconds": ("gauge", "How long the broker has been running."),
    "lab_broker_clients_connected": ("gauge", "Clients connected to the broker, the exporter among them."),
    "lab_broker_stored_messages": ("gauge", "Messages the broker holds: queued, in flight and retained."),
    "lab_broker_messages_received_total": ("counter", "MQTT packets of all kinds the broker received."),
    "lab_broker_messages_sent_total": ("counter", "MQTT packets of all kinds the broker sent."),
    "lab_broker_publish_received_total": ("counter", "PUBLISH packets the broker received."),
    "lab_broker_publish_sent_total": ("counter", "PUBLISH packets the broker sent."),
    "lab_broker_publish_dropped_total": ("counter", "PUBLISH packets the broker dropped."),
    "lab_broker_received_bytes_total": ("counter", "Bytes the broker received."),
    "lab_broker_sent_bytes_total": ("counter", "Bytes the broker sent."),
    "lab_bridge_online": ("gauge", "1 while the bridge says it is online."),
    "lab_robot_online": ("gauge", "1 while the bridge says the robot is online."),
    "lab_bridge_events_total": ("counter", "What the bridge counts, by event."),
    "lab_processes": ("gauge", "Processes of each part of the lab."),
    "lab_process_cpu_seconds_total": ("counter", "CPU time of each part of the lab, ended processes included."),
    "lab_process_resident_memory_bytes": ("gauge", "Resident memory of each part of the lab."),
    "lab_host_cpu_seconds_total": ("counter", "CPU time of the whole machine by mode."),
    "lab_host_cpus": ("gauge", "Processors of the machine."),
    "lab_host_load1": ("gauge", "Load average over one minute."),
    "lab_host_runnable": ("gauge", "Tasks running or waiting for a processor at this moment."),
    "lab_host_context_switches_total": ("counter", "Context switches of the whole machine."),
    "lab_host_memory_available_bytes": ("gauge", "Memory available without swapping."),
    "lab_host_memory_total_bytes": ("gauge", "Memory of the machine."),
}

# Family -> its sample lines, each ended by a line feed.
Texts = Mapping[str, str]


def labels_text(labels: Mapping[str, str]) -> str:
    """`name="value",…` without the braces."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def escape(value: str) -> str:
    """A label's value as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def line(family: str, labels: Mapping[str, str], value: float) -> str:
    """One sample of a family that is no histogram."""
    braces = f"{{{labels_text(labels)}}}" if labels else ""
    return f"{family}{braces} {value!r}\n"


def page(parts: Iterable[Texts]) -> bytes:
    """The families of all parts, each family once and whole."""
    texts = list(parts)
    chunks = []
    for family, (kind, text) in FAMILIES.items():
        samples = [part[family] for part in texts if part.get(family)]
        if samples:
            chunks.append(f"# HELP {family} {text}\n# TYPE {family} {kind}\n")
            chunks += samples
    return "".join(chunks).encode()

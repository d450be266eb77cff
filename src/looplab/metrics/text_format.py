"""The metrics' names, their help, and Prometheus's text format (0.0.4).

Written by hand rather than with prometheus-client: what did not change between two scrapes is kept as text,
so that a scrape of a running cell costs about a millisecond (see bench/scrape.py).
"""

from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Family -> (type, help), in the order in which they are served; an experiment's metrics.py has those of its own.
Families = Mapping[str, tuple[str, str]]
FAMILIES: Families = {
    "loop_run_active": ("gauge", "1 while the run is measuring, 0 once it has ended."),
    "loop_run_info": ("gauge", "1; the labels are the run's effective parameters."),
    "loop_run_started_timestamp_seconds": ("gauge", "When the run was started, in Unix time."),
    "loop_run_messages_planned": ("gauge", "Messages the whole run will send."),
    "loop_run_valid": ("gauge", "1 where every required treatment was found as wanted."),
    "loop_treatment_verified": ("gauge", "1 where what was found is what was wanted."),
    "lab_damaged_runs": ("gauge", "Folders in results/ that could not be read and are left out."),
    "lab_pages_info": ("gauge", "1; port is where a browser on this machine reaches the lab's pages."),
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
    """Return `name="value",…` without the braces."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def escape(value: str) -> str:
    """Return a label's value as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def line(family: str, labels: Mapping[str, str], value: float) -> str:
    """Return one sample of a family that is no histogram."""
    braces = f"{{{labels_text(labels)}}}" if labels else ""
    return f"{family}{braces} {value!r}\n"


def page(parts: Iterable[Texts], families: Families) -> bytes:
    """Return the families of all parts, each family once and whole; one that is not in `families` is left out."""
    texts = list(parts)
    chunks = []
    for family, (kind, text) in families.items():
        samples = [part[family] for part in texts if part.get(family)]
        if samples:
            chunks.append(f"# HELP {family} {text}\n# TYPE {family} {kind}\n")
            chunks += samples
    return "".join(chunks).encode()

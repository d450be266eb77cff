"""The metrics' names and help, and one page of them for Prometheus, by prometheus_client."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from looplab.metrics.distributions import Distribution

LATENCY, FIGURE = "lab_latency_seconds", "lab_figure"
# Family -> (type, help), in the order in which they are served.
FAMILIES: Mapping[str, tuple[str, str]] = {
    LATENCY: ("histogram", "Latencies of the messages of a cell, in seconds, by metric; `send lateness` is one."),
    "lab_messages_total": ("counter", "Messages of a cell by outcome."),
    "lab_messages_sent_total": ("counter", "Messages of a cell that were sent."),
    FIGURE: ("gauge", "What else a cell shows while it is measured, by figure, in the unit of run.json."),
    "lab_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "lab_run_active": ("gauge", "1 while the run is measuring, 0 once it has ended."),
    "lab_run_info": ("gauge", "1; the labels are the run's effective parameters."),
    "lab_run_started_timestamp_seconds": ("gauge", "When the run was started, in Unix time."),
    "lab_run_messages_planned": ("gauge", "Messages that the whole run will send."),
    "lab_run_valid": ("gauge", "1 if every required treatment was found as wanted; of a run that has ended."),
    "lab_treatment_verified": ("gauge", "1 where what was found is what was wanted."),
    "lab_pages_info": ("gauge", "1; port is where a browser on this machine reaches the lab's pages."),
    "lab_bridge_online": ("gauge", "1 while the bridge says it is online."),
    "lab_robot_online": ("gauge", "1 while the bridge says the robot is online."),
    "lab_bridge_events_total": ("counter", "What the bridge counts, by event."),
    "lab_broker_up": ("gauge", "1 while the broker answers; the other broker metrics are absent while it does not."),
    "lab_broker_uptime_seconds": ("gauge", "How long the broker has been running."),
    "lab_broker_clients_connected": ("gauge", "Clients connected to the broker, the exporter among them."),
    "lab_broker_stored_messages": ("gauge", "Messages the broker holds: queued, in flight and retained."),
    "lab_broker_publish_received_total": ("counter", "PUBLISH packets the broker received."),
    "lab_broker_publish_sent_total": ("counter", "PUBLISH packets the broker sent."),
    "lab_broker_publish_dropped_total": ("counter", "PUBLISH packets the broker dropped."),
    "lab_processes": ("gauge", "Processes of each part of the lab."),
    "lab_process_cpu_seconds_total": ("counter", "CPU time of each part of the lab, ended processes included."),
    "lab_process_resident_memory_bytes": ("gauge", "Resident memory of each part of the lab."),
    "lab_host_cpu_seconds_total": ("counter", "CPU time of the whole machine by mode."),
    "lab_host_cpus": ("gauge", "Processors of the machine."),
    "lab_host_load1": ("gauge", "Load average over one minute."),
    "lab_host_runnable": ("gauge", "Tasks running or waiting for a processor at this moment."),
}

Labels = Mapping[str, str]


class Page(Collector):
    """Collects the samples of one scrape by family."""

    def __init__(self) -> None:
        self._families = {
            name: Metric(name.removesuffix("_total") if kind == "counter" else name, about, kind)
            for name, (kind, about) in FAMILIES.items()
        }

    def add(self, family: str, labels: Labels, value: float) -> None:
        """Add one sample of a family that is no histogram."""
        self._families[family].add_sample(family, dict(labels), value)

    def add_latency(self, labels: Labels, latency: Distribution) -> None:
        """Add the buckets, sum and count of one latency."""
        family = self._families[LATENCY]
        for bound, count in zip(latency.bound_texts, latency.cumulative(), strict=True):
            family.add_sample(f"{LATENCY}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{LATENCY}_sum", dict(labels), latency.sum_ns / 1e9)
        family.add_sample(f"{LATENCY}_count", dict(labels), latency.count)

    def collect(self) -> Iterator[Metric]:
        """Yield each family that has samples."""
        yield from (one for one in self._families.values() if one.samples)

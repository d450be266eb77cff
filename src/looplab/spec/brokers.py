"""The brokers that a run can have: BROKER, and a file compose/broker.<name>.yaml for each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from looplab.spec.roles import BROKER, Role

UPTIME = "lab_broker_uptime_seconds"
PUBLISHED = "lab_broker_publish_received_total"
EVERY_QOS = (0, 1, 2)
# The study whose scenarios are run with each broker that the machine has.
STUDY = "brokers"


@dataclass(frozen=True)
class Broker:
    """`comm` is its process, `qos` the qualities of service it knows; every thread of that process is prioritised.

    What it reports of itself comes from topics, or from a page of metrics on `page` ("15692/metrics"). `version` is
    the topic of its version, or the text before it on the page; `metrics` are topics, or the beginning of the series
    that are summed, by family of the exporter: UPTIME and PUBLISHED at least. In a range of `misses_qos_2`
    (first version with the defect, first version without) PUBLISHED has no packets at QoS 2.
    """

    comm: str
    version: str
    metrics: Mapping[str, str]
    qos: tuple[int, ...] = EVERY_QOS
    page: str = ""
    misses_qos_2: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()

    def counted_qos(self, version: str) -> tuple[int, ...]:
        """Return the qualities of service that its count of PUBLISH packets holds; all for an unknown version."""
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        misses = any(first <= numbers < fixed for first, fixed in self.misses_qos_2)
        return EVERY_QOS[:2] if misses else EVERY_QOS

    @property
    def role(self) -> Role:
        """What the treatments service looks for."""
        return Role(BROKER.name, (self.comm,), most_fifo=BROKER.most_fifo)


_SYS = "$SYS/broker/"
# Of every version of MQTT.
_MQTT = '{protocol="mqtt'


def _sys(publish: str) -> dict[str, str]:
    """Return the topics by family; `publish` is what a broker calls PUBLISH packets."""
    return {
        UPTIME: f"{_SYS}uptime",
        PUBLISHED: f"{_SYS}{publish}/received",
        "lab_broker_publish_sent_total": f"{_SYS}{publish}/sent",
        "lab_broker_publish_dropped_total": f"{_SYS}{publish}/dropped",
        "lab_broker_clients_connected": f"{_SYS}clients/connected",
    }


DEFAULT = "mosquitto"
BROKERS = {
    DEFAULT: Broker(
        "mosquitto",
        version=f"{_SYS}version",
        metrics={
            **_sys("publish/messages"),
            "lab_broker_stored_messages": f"{_SYS}store/messages/count",
        },
        misses_qos_2=(((0,), (1, 6, 13)), ((2, 0, 0), (2, 0, 4))),
    ),
    "rabbitmq": Broker(
        "beam.smp",
        qos=(0, 1),
        page="15692/metrics",
        version='rabbitmq_version="',
        metrics={
            UPTIME: "rabbitmq_erlang_uptime_seconds",
            PUBLISHED: f"rabbitmq_global_messages_received_total{_MQTT}",
            "lab_broker_publish_sent_total": f"rabbitmq_global_messages_delivered_total{_MQTT}",
            "lab_broker_publish_dropped_total": f"rabbitmq_global_messages_unroutable_dropped_total{_MQTT}",
        },
    ),
    "mochi": Broker("mochi", version=f"{_SYS}version", metrics=_sys("messages")),
}

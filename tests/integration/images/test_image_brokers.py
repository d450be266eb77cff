"""The brokers that the lab builds itself, with its settings: what they grant, count, report, and how they fail."""

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from support.containers import docker, own_image
from support.image_harness import Container, Starter, starter
from support.waiting import until

from looplab.experiments.loop.protocol import answer_to, request_properties
from looplab.mqtt.client import ClientOptions, wait_for
from looplab.mqtt.client_5 import Mqtt5Client
from looplab.mqtt.dial import Target
from looplab.mqtt.packets import with_length
from looplab.spec.brokers import BROKERS
from looplab.system import processes
from looplab.treatments.broker import published, version

pytestmark = pytest.mark.engine

OWNED = "uid=10023,gid=10023"
OPTIONS = {
    "rabbitmq": ("--tmpfs=/tmp", f"--tmpfs=/var/lib/rabbitmq:{OWNED}", f"--tmpfs=/var/log/rabbitmq:{OWNED}"),
    "mochi": (),
}
HEALTHY = {"rabbitmq": ("healthy",), "mochi": ("/mochi", "healthy")}
# mochi's CONNACK names no Topic Alias Maximum: it stays 0.
ALIASES = {"rabbitmq": True, "mochi": False}
PORT = 1883


class Running:
    """A broker that answers; `client` connects to it."""

    def __init__(self, name: str, container: Container) -> None:
        self.name, self.container, self.known = name, container, BROKERS[name]
        self.host = docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", container.id).strip()
        until(self.healthy, f"{name} answers", 60)

    def healthy(self) -> bool:
        command = ["docker", "exec", self.container.id, *HEALTHY[self.name]]
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0

    def process(self) -> dict[str, Any]:
        """The broker's one process, as the treatments service finds it."""
        pids = [int(one["pid"]) for one in self.container.processes() if one["name"] == self.known.comm]
        assert len(pids) == 1, self.container.processes()
        return processes.facts(pids[0])

    def client(self, at_end: contextlib.ExitStack) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
        client.connect(self.host, PORT)
        client.loop_start()
        at_end.callback(client.loop_stop)
        at_end.callback(client.disconnect)
        until(client.is_connected, "the connection")
        return client


def running(name: str, start: Starter, nodelay: str = "", *more: str) -> Running:
    options = ("--env", "FIDELITY=thesis", "--env", f"TCP_NODELAY={nodelay}", *OPTIONS[name], *more)
    return Running(name, start(own_image(name, BROKER=name), options=options))


@pytest.fixture(scope="module", params=OPTIONS)
def broker(request: pytest.FixtureRequest) -> Iterator[Running]:
    """One of each as it is set by default, for all tests: RabbitMQ takes seconds to start."""
    with contextlib.ExitStack() as at_end:
        yield running(request.param, starter(at_end))


def test_it_reports_its_version_counts_passes_properties_and_takes_topic_aliases(broker: Running) -> None:
    assert version(broker.known, broker.host, PORT).count(".") == 2
    heard: list[tuple[bytes, bytes]] = []
    options = ClientOptions([("answer/", 2)], topic_alias=True)
    target = Target(broker.host, PORT, tcp_nodelay=True)
    client = Mqtt5Client(target, "five", options, lambda _t, payload, _q: heard.append((payload, client.properties)))
    sent = [(b"%d" % qos, request_properties(b"E-run-%d" % number)) for qos in broker.known.qos for number in range(3)]
    with contextlib.closing(client):
        assert client.connect(10)
        assert (client.version, client.topic_alias) == ("5", ALIASES[broker.name])
        assert wait_for([client], lambda: client.subscribed, 10)
        before, _ = published(broker.known, broker.host, PORT)
        for payload, properties in sent:
            client.publish("answer/", payload, int(payload), properties=properties)
        assert wait_for([client], lambda: len(heard) == len(sent), 10), client.last_loss
        until(lambda: published(broker.known, broker.host, PORT)[0] == before + len(sent), "the count of these")
    assert [payload for payload, _ in heard] == [payload for payload, _ in sent]
    assert [answer_to(found) for _, found in heard] == [answer_to(with_length(properties)) for _, properties in sent]


def test_a_status_is_retained_and_a_last_will_published(broker: Running, at_end: contextlib.ExitStack) -> None:
    heard: list[tuple[bytes, bool]] = []
    bridge = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
    bridge.will_set("lab/bridge/status", b"offline", 1, retain=True)
    bridge.connect(broker.host, PORT, keepalive=2)
    bridge.loop_start()
    bridge.publish("lab/bridge/status", b"online", 1, retain=True).wait_for_publish(10)
    late = broker.client(at_end)
    late.on_message = lambda _c, _d, message: heard.append((message.payload, message.retain))
    late.subscribe("lab/bridge/status", 1)
    until(lambda: heard == [(b"online", True)], "the retained status")
    # It falls silent and says no farewell.
    bridge.loop_stop()
    until(lambda: heard[1:] == [(b"offline", False)], "the last will")


@pytest.mark.parametrize("name", OPTIONS)
def test_as_root_it_holds_one_capability_and_no_other_right(name: str, at_end: contextlib.ExitStack) -> None:
    """As LAB_PRIORITY_UID=0 starts it: it works by its group alone, TCP_NODELAY is as set, and a stop is at once."""
    group = {"rabbitmq": "10023", "mochi": "10024"}[name]
    own = running(name, starter(at_end), "on", f"--user=0:{group}", "--cap-add=SYS_NICE")
    assert own.process()["sys_nice"] == processes.EFFECTIVE
    own.client(at_end)
    sockets = own.process()["sockets"]
    if isinstance(sockets, str):
        pytest.skip(f"sockets are {sockets}")
    assert {one["tcp_nodelay"] for one in sockets if one["local_port"] == PORT} == {True}
    assert own.container.stop() < 15

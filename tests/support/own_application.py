"""An application of several requesters and a device by paho, one process each: python own_application.py ROLE JSON."""

import json
import socket
import sys
import threading
import time
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

VERSIONS = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}
WAIT_S = 5.0


def connected(name: str, asked: dict[str, Any], topic: str, act: Any) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=VERSIONS[asked["version"]])
    there = threading.Event()
    client.on_connect = lambda *_: client.subscribe(topic, asked["qos"])
    client.on_subscribe = lambda *_: there.set()
    client.on_message = act
    client.on_socket_open = lambda _client, _data, sock: sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.max_inflight_messages_set(0)
    client.connect(asked["host"], asked["port"])
    client.loop_start()
    assert there.wait(WAIT_S)
    return client


def device(asked: dict[str, Any]) -> None:
    """Answer each request of each requester on its own topic, until standard input ends."""

    def answer(client: Any, _data: Any, message: Any) -> None:
        client.publish(message.topic.removesuffix("ask") + "answer", message.payload, asked["qos"])

    client = connected(f"{asked.get('name', '')}device", asked, "app/+/ask", answer)
    print("ready", flush=True)
    sys.stdin.read()
    client.loop_stop()


def requesters(asked: dict[str, Any]) -> None:
    """Send the requests of all requesters at their rate; print by client id and number how long each took in ms."""
    sent: dict[tuple[str, int], float] = {}
    took: dict[str, float] = {}

    def received(_client: Any, _data: Any, message: Any) -> None:
        now_s = time.perf_counter()
        name, number = message.topic.split("/")[1], json.loads(message.payload)["n"]
        took[f"{name} {number}"] = (now_s - sent[name, number]) * 1000

    names = [f"{asked.get('name', '')}asks-{number}" for number in range(asked["clients"])]
    clients = [connected(name, asked, f"app/{name}/answer", received) for name in names]
    start_s = time.perf_counter()
    for number in range(asked["requests"]):
        at = number % len(clients)
        time.sleep(max(0.0, start_s + number * asked["interval_s"] - time.perf_counter()))
        topic, payload = f"app/{names[at]}/ask", json.dumps({"n": number})
        sent[names[at], number] = time.perf_counter()
        clients[at].publish(topic, payload, asked["qos"])
    end_s = time.perf_counter() + WAIT_S
    while len(took) < asked["requests"] and time.perf_counter() < end_s:
        time.sleep(0.05)
    print(json.dumps(took), flush=True)
    for client in clients:
        client.disconnect()


if __name__ == "__main__":
    {"device": device, "requesters": requesters}[sys.argv[1]](json.loads(sys.argv[2]))

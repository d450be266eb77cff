"""What publisher and subscriber share: paho's client with its network thread, in Python 2.7 and 3."""

import json
import os
import platform
import socket
import sys
import time

import paho.mqtt
import paho.mqtt.client as mqtt


def now_ns():
    """Return CLOCK_REALTIME; in Python 2.7 to 0.2 us, for a float holds no more."""
    return time.time_ns() if hasattr(time, "time_ns") else int(time.time() * 1e9)


def say(**words):
    """Print one line of JSON for the controller."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def connect(name, topic, on_message=None):
    """Return a client that is connected and subscribes to `topic` as printed: without a QoS.

    It reports its versions and, once the broker has granted it, the QoS of its subscription. The environment has
    BROKER_HOST, BROKER_PORT, BROKER_USER and BROKER_PASSWORD (empty: none), TCP_NODELAY (on, off) and QOS (of the
    subscription; printed: 0).
    """
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)
    versions = getattr(mqtt, "CallbackAPIVersion", None)
    client = mqtt.Client(versions.VERSION1) if versions else mqtt.Client()

    def on_connect(client, _userdata, _flags, _code):
        if os.environ["TCP_NODELAY"] == "on":
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.subscribe(topic, int(os.environ["QOS"]))

    def on_subscribe(_client, _userdata, _number, granted):
        say(python=platform.python_version(), paho=paho.mqtt.__version__, pid=os.getpid(), granted={topic: granted[0]})

    client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
    if os.environ["BROKER_USER"]:
        client.username_pw_set(os.environ["BROKER_USER"], os.environ["BROKER_PASSWORD"])
    client.connect(os.environ["BROKER_HOST"], int(os.environ["BROKER_PORT"]))
    client.loop_start()
    return client

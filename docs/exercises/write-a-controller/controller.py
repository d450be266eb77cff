"""A controller: sends requests to the robot and hears its answers. It runs, and is slow: the handout says why."""

import os
import time

import paho.mqtt.client as mqtt

first, count, qos = (int(os.environ[name]) for name in ("FIRST", "COUNT", "QOS"))
interval_s, request = float(os.environ["INTERVAL_S"]), os.environ["REQUEST"]
answers = []

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_message = lambda _client, _data, message: answers.append(message.payload)
client.connect(os.environ["BROKER_HOST"], int(os.environ["BROKER_PORT"]))
client.subscribe("answer/")
client.loop_start()
time.sleep(0.5)

for k in range(first, first + count):
    client.publish("request/", f"{request}-{k}", qos)
    time.sleep(interval_s)

time.sleep(1)
print(len(answers), "of", count, "answered; the last one:", answers[-1:])
client.disconnect()
client.loop_stop()

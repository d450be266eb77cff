"""Asks the device 50 times a second."""

import json
import time

from paho.mqtt.client import CallbackAPIVersion, Client

client = Client(CallbackAPIVersion.VERSION2, client_id="my-controller")
client.on_connect = lambda *_: client.subscribe("app/answer")
client.connect("broker", 1883)
client.loop_start()
number = 0
while True:
    number += 1
    client.publish("app/request", json.dumps({"n": number}), qos=1)
    time.sleep(0.02)

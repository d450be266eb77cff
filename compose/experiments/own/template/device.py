"""Answers each request after 4 ms."""

import time

from paho.mqtt.client import CallbackAPIVersion, Client


def answer(client, _userdata, message):
    time.sleep(0.004)
    client.publish("app/answer", message.payload)


client = Client(CallbackAPIVersion.VERSION2, client_id="my-device")
client.on_connect = lambda *_: client.subscribe("app/request")
client.on_message = answer
client.connect("broker", 1883)
client.loop_forever()

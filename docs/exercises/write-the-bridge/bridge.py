"""A bridge: hears requests and answers them. It runs, and never asks the robot: that is yours to write."""

import os
import time

import paho.mqtt.client as mqtt

# pyserial opens this address as it opens /dev/ttyUSB0: import serial, then serial.serial_for_url(address, 57600).
address = os.environ["SERIAL_URL"]


def on_message(client, _data, message):
    command, run, sequence = message.payload.decode().split("-")
    begin_ns = time.perf_counter_ns()
    value, status = "20.00", "ok" if command == "E" else "timeout"
    took_ns = time.perf_counter_ns() - begin_ns
    client.publish("answer/", f"{run},{sequence},{status},{took_ns},{value}")


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_message = on_message
client.on_connect = lambda client, *_: client.subscribe("request/")
client.connect(os.environ["BROKER_HOST"], int(os.environ["BROKER_PORT"]))
client.loop_forever()

"""The subscriber, which behaves as the one of the thesis's figure A.3: it stamps each answer, and spins.

RECEIVER=spin: the main thread turns without a pause, beside paho's network thread. With `select` it sleeps, and only
the network thread waits. SIGUSR1 has it report the answers since the last report, each with the time of its arrival.
"""

import os
import signal

from client import connect, now_ns, say

arrived = []


def on_message(_client, _userdata, message):
    stamp_ns = now_ns()
    arrived.append((message.payload, stamp_ns))


def report(_number, _frame):
    global arrived
    answers, arrived = arrived, []
    say(stamps=[(payload.decode("ascii", "replace"), stamp_ns) for payload, stamp_ns in answers])


signal.signal(signal.SIGUSR1, report)
connect("lab-subscriber", "answer/", on_message)
sleeps = os.environ["RECEIVER"] == "select"
while True:
    if sleeps:
        signal.pause()

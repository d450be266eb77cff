"""The publisher, which behaves as the one of the thesis's figures A.1 and A.2: it sleeps, stamps, publishes.

It reads lines `<first> <count> <seconds> <qos> <form>` and sends message k as `form % k`. As printed it also hears its
own requests. Printed, it ends after its last message, and with it the handshakes that are open; here it stays until the
controller closes its input, so that the account is exact.
"""

import sys
import time

from client import connect, now_ns, say

client = connect("lab-publisher", "request/")
for line in iter(sys.stdin.readline, ""):
    first, count, seconds, qos, form = line.split()
    stamps = []
    for sequence in range(int(first), int(first) + int(count)):
        time.sleep(float(seconds))
        stamps.append((sequence, now_ns()))
        client.publish("request/", form % sequence, int(qos), False)
    say(stamps=stamps)

"""Print messages as the broker hands them on: what `./lab listen` starts beside the broker.

`python3 -m looplab.experiments.listen NAME [SECONDS]`, until SIGINT or SIGTERM, until the broker ends, or for SECONDS
from the subscription on. NAME is an experiment; its protocol.py, if it has one, names the topics and decodes the
payloads. The subscription is at QoS 0: the broker keeps nothing for it, and a slow terminal delays nobody.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.experiments.registry import EXPERIMENTS
from looplab.treatments.broker import log_in

# A request is shown with its answer: at most 20 lines a second.
PAIRS_PER_S = 10
# What is asked longer ago has no answer any more.
MOST_ASKED = 100
WIDTH = 79
# Payload to (key of the pair, whether it is the answer, its words), None for one of no known form.
Decode = Callable[[bytes], tuple[object, bool, str] | None]


class View:
    """Chooses what is shown, and decodes it."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._next_s = 0.0
        self._asked: dict[object, None] = {}
        self._left_out = 0

    def lines(self, topic: str, payload: bytes, now_s: float) -> Iterator[str]:
        """Yield the line of a message, none if it is left out."""
        key, answers, words = self._decode(payload) or (None, False, _text(payload))
        if answers and key in self._asked:
            del self._asked[key]
            yield f"{topic:<9} {words}"
        elif answers or now_s < self._next_s:
            self._left_out += 1
        else:
            self._next_s = now_s + 1 / PAIRS_PER_S
            self._asked[key] = None
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
            yield f"{topic:<9} {words}" + (f" ({self._left_out} not shown)" if self._left_out else "")
            self._left_out = 0


def _text(payload: bytes) -> str:
    """Return a payload of anybody's as text that cannot change a terminal."""
    return "".join(character if character.isprintable() else "." for character in payload.decode("utf-8", "replace"))


def main() -> int:
    """Listen; return 3 if there is no broker."""
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else None
    protocol = EXPERIMENTS[sys.argv[1]].optional_part("protocol")
    view, over = View(protocol.decode if protocol else lambda _payload: None), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())

    def show(_client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        for line in view.lines(message.topic, message.payload, time.monotonic()):
            print(f"{datetime.now(UTC):%H:%M:%S.%f}"[:12], line[: WIDTH - 13], flush=True)

    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_message = show
    client.on_disconnect = lambda *_: over.set()
    log_in(client)
    host, port = os.environ.get("BROKER_HOST", "127.0.0.1"), int(os.environ.get("BROKER_PORT", "1883"))
    try:
        client.connect(host, port)
    except OSError as error:
        print(f"listen: no broker at {host}:{port}: {error}.", file=sys.stderr)
        return EXIT_MACHINE
    client.subscribe([(topic, 0) for topic in (protocol.TOPICS if protocol else ["#"])])
    client.loop_start()
    over.wait(seconds)
    client.disconnect()
    return EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main())

"""The proxy of the fault tests passes on what it does not touch, and records what it did."""

import random
import socket

from support.mqtt_packets import packet, publish, random_splits
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule

LOSS = Rule(impairment="loss", direction=TO_BROKER, every=3)
DELAY = Rule(impairment="delay", direction=TO_CLIENT, jitter_us=9e3)


def test_both_streams_pass_however_they_are_split() -> None:
    dice = random.Random(1)
    requests = [publish(f"E-1-{number}") for number in range(9)]
    others = [packet(dice.randrange(64, 256), dice.randbytes(dice.choice((0, 127, 128, 3000)))) for _ in requests]
    answers = b"".join(publish(f"1,{number},ok,0,0", "answer/") for number in range(9))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        ImpairmentProxy(server.getsockname(), (LOSS, DELAY)) as proxy,
    ):
        client = socket.create_connection(("127.0.0.1", proxy.port))
        broker, _ = server.accept()
        for piece in random_splits(b"".join(map(bytes.__add__, requests, others)), dice):
            client.sendall(piece)
        broker.sendall(answers)
        kept = [b"" if index % 3 == 2 else request for index, request in enumerate(requests)]
        wanted = b"".join(map(bytes.__add__, kept, others))
        assert broker.recv(len(wanted), socket.MSG_WAITALL) == wanted
        assert client.recv(len(answers), socket.MSG_WAITALL) == answers
        client.close()
        assert broker.recv(1) == b"", "the end of the stream, too"
    assert [lost.sequence for lost in proxy.applied("loss")] == [2, 5, 8]
    assert len([delay for delay in proxy.applied("delay") if delay.held_ns > 0]) == 9

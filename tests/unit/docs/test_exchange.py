"""The QoS 2 exchange that a handout prints is the bridge's part of the capture beside it, packet by packet."""

import re

from support.places import ROOT

from looplab.capture.segments import TYPES, read

FOLDER = ROOT / "docs/exercises/why-is-qos-2-slow"
_LINE = re.compile(r"^ *(\d+\.\d{3}) \w+ +> \w+ +([A-Z]+) ", re.MULTILINE)
BROKER = 1883


def test_the_handout_prints_the_capture() -> None:
    segments = [one for one in read(FOLDER / "exchange.pcap") if one.data]
    first_s = segments[0].time_s
    [bridge] = {one.source for one in segments if b"answer/" in one.data} - {BROKER}
    shown = [one for one in segments if bridge in (one.source, one.destination)]
    captured = [(f"{(one.time_s - first_s) * 1000:.3f}", TYPES[one.data[0] >> 4]) for one in shown]
    assert _LINE.findall((FOLDER / "README.md").read_text()) == captured
    # A leg each way, each with the four packets of QoS 2.
    assert [kind for _, kind in captured].count("PUBCOMP") == 2 == len(captured) / 4

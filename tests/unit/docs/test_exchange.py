"""The QoS 2 exchange that a handout prints is the capture beside it, packet by packet."""

import re

from support.places import ROOT

from looplab.capture.segments import TYPES, read

FOLDER = ROOT / "docs/exercises/why-is-qos-2-slow"
_LINE = re.compile(r"^ *(\d+\.\d{3}) \w+ +> \w+ +([A-Z]+) ", re.MULTILINE)


def test_the_handout_prints_the_capture() -> None:
    segments = [one for one in read(FOLDER / "exchange.pcap") if one.data]
    first_s = segments[0].time_s
    captured = [(f"{(one.time_s - first_s) * 1000:.3f}", TYPES[one.data[0] >> 4]) for one in segments]
    assert _LINE.findall((FOLDER / "README.md").read_text()) == captured
    # Two legs each way, each with the four packets of QoS 2.
    assert [kind for _, kind in captured].count("PUBCOMP") == 4 == len(captured) / 4

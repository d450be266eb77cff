"""The C floor: each end works with the other, and every message is accounted for."""

import json
from typing import Any

import pytest
from support.containers import docker
from support.image_harness import HARDENED, Container

pytestmark = pytest.mark.engine


def floor(image: str, broker: Container, *arguments: str) -> dict[str, Any]:
    output = docker("run", "--rm", *HARDENED, "--network", f"container:{broker.id}", image, *arguments)
    report: dict[str, Any] = json.loads(output)
    return report


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_both_ends_in_one_process(floor_image: str, broker: Container, qos: int) -> None:
    report = floor(floor_image, broker, "--messages", "50", "--interval-ms", "10", "--qos", str(qos), "--nodelay", "1")
    assert (report["n"], report["sent"], report["lost"], report["duplicates"], report["malformed"]) == (50, 50, 0, 0, 0)
    assert (report["qos"], report["interval_ms"], report["nodelay"]) == (qos, 10, True)
    for name in ("O_us", "T_us", "R_us", "send_lateness_us"):
        spread = report[name]
        assert 0 <= spread["p50"] <= spread["p95"] <= spread["p99"] <= spread["max"]
    assert report["O_us"]["max"] <= report["T_us"]["max"]
    assert report["T_us"]["p50"] > report["R_us"]["p50"] > 0

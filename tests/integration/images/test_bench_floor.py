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


def test_both_ends_in_one_process(floor_image: str, broker: Container) -> None:
    for qos in (0, 1, 2):
        report = floor(floor_image, broker, "--messages", "50", "--interval-ms", "10", "--qos", str(qos))
        counts = [report[name] for name in ("n", "sent", "lost", "duplicates", "malformed")]
        assert counts == [50, 50, 0, 0, 0]
        assert (report["qos"], report["interval_ms"]) == (qos, 10)
        for name in ("O_us", "T_us"):
            spread = report[name]
            assert 0 < spread["each"][0] <= spread["p50"] <= spread["each"][-1]
        assert report["O_us"]["p50"] < report["T_us"]["p50"]

"""TLS as a treatment: wanted on a connection or not, and the version that was really negotiated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from looplab.experiments.loop.parameters import Parameters
from looplab.treatments.judgement import Treatment

OFF = "off"
ON = "TLS 1.2 or later"
ACCEPTED = ("TLSv1.2", "TLSv1.3")


def judge(parameters: Parameters, controller: str, bridge: Mapping[str, Any]) -> list[Treatment]:
    """`controller` is the version on its connection ("" without TLS), `bridge` what the bridge says of itself."""
    return [
        _one("controller", parameters.broker_tls, controller),
        _one("bridge", parameters.bridge_tls, str(bridge.get("tls", "")) if bridge else "unknown"),
    ]


def _one(role: str, wanted: bool, version: str) -> Treatment:
    verified = version in ACCEPTED if wanted else version == ""
    note = "" if verified else "the bridge goes by its pairing file (./lab pair), the controller by BROKER_TLS"
    return Treatment(f"{role} TLS", ON if wanted else OFF, version or OFF, verified, note=note)

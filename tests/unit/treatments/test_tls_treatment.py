"""TLS as a treatment: who wants it by the settings, and what is taken for it."""

import pytest

from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.treatments import judge_connections


def parameters(**settings: str) -> LoopParameters:
    return LoopParameters.read({"SCENARIO": "scenario1", **settings})


@pytest.mark.parametrize(
    ("settings", "controller", "bridge"),
    [
        ({}, False, False),
        ({"ROBOT": "usb"}, False, False),
        # The loop stays as the thesis had it; what crosses the LAN does not.
        ({"ROBOT": "remote"}, False, True),
        ({"ROBOT": "remote", "BROKER_TLS": "off"}, False, False),
        ({"ROBOT": "remote", "BROKER_TLS": "on"}, True, True),
        ({"BROKER_TLS": "on"}, True, True),
        ({"BROKER_TLS": ""}, False, False),
    ],
)
def test_who_has_tls(settings: dict[str, str], controller: bool, bridge: bool) -> None:
    found = parameters(**settings)
    assert (found.broker_tls, found.bridge_tls) == (controller, bridge)


@pytest.mark.parametrize(
    ("wanted", "found", "verified"),
    [
        ("on", "TLSv1.3", True), ("on", "TLSv1.2", True), ("on", "TLSv1.1", False), ("on", "", False),
        ("off", "", True), ("off", "TLSv1.3", False),
    ],
)  # fmt: skip
def test_what_was_negotiated_decides(wanted: str, found: str, verified: bool) -> None:
    """Of a bridge that says nothing, as an older one, nothing is verified, whatever was wanted."""
    _, silent = judge_connections(parameters(BROKER_TLS=wanted), found, {})
    assert (silent.found, silent.verified) == ("unknown", False)
    for treatment in judge_connections(parameters(BROKER_TLS=wanted), found, {"tls": found}):
        assert treatment.verified is verified
        assert treatment.required
        assert treatment.found == (found or "off")
        assert bool(treatment.note) is not verified

"""Whether the link of a run was there: what its emulator reports between cells, as a treatment."""

from collections.abc import Sequence
from typing import Any

from looplab.errors import LabError
from looplab.link import client
from looplab.treatments.emulators import PINGS, deviation, trip_count, trip_deviation, trip_mean_ms
from looplab.treatments.judgement import Treatment

NO_LINK = "none"
TIMEOUT_S = 10.0


def scan(url: str, pings: int = PINGS) -> dict[str, Any]:
    """Return the emulator's state, with round trips by `pings` echoes 10 ms apart if there are any.

    {"fault": why} if it does not answer.
    """
    try:
        return client.state(url, pings=pings, timeout_s=TIMEOUT_S)
    except LabError as error:
        return {"fault": error.message}


def judge(name: str, scans: Sequence[dict[str, Any]], emulating: bool) -> Treatment:
    """Return the treatment "link" from all scans of a run; `emulating` is whether any process emulates one."""
    if name == NO_LINK:
        found = "none" if not emulating else "an emulator is running"
        note = "" if not emulating else "docker compose --profile '*' down"
        return Treatment("link", NO_LINK, found, not emulating, note=note)
    faults = [entry["fault"] for entry in scans if "fault" in entry]
    if faults or not scans:
        return Treatment("link", name, "not emulated to the end", False, note="; ".join(faults[:1]))
    last = scans[-1]
    wanted = f"{name}: {'; '.join(_describe(link['settings']) for link in last['links'])}"
    if len({entry["instance"] for entry in scans}) > 1:
        return Treatment("link", wanted, "the emulator was restarted during the run", False)
    if not last["links"]:
        return Treatment("link", name, f"{last['backend']}: no link is set", False, note="see LINK_PEER")
    wrong = [why for link in last["links"] if (why := deviation(link))] + _trip_deviations(scans)
    trips = _trips(scans)
    made = [f"{link['settings']['direction']} {_made(link)}" for link in last["links"]]
    made += [
        f"round trip {trip_mean_ms(figures):.2f} ms (n {trip_count(figures)})" for figures in trips.values() if figures
    ]
    return Treatment("link", wanted, f"{last['backend']}: {', '.join(made)}", not wrong, note="; ".join(wrong))


def _describe(settings: dict[str, Any]) -> str:
    words = [f"{settings['direction']} {settings['delay_ms']:g} ms"]
    if settings["jitter_ms"]:
        words.append(f"{settings['distribution']} {settings['jitter_ms']:g} ms")
    if settings["loss_percent"]:
        words.append(f"loss {settings['loss_percent']:g} %")
    return ", ".join(words)


def _made(link: dict[str, Any]) -> str:
    delay = link["delay_ms"]
    if not delay["n"]:
        return f"{link['packets']} packets"
    return f"{delay['mean']:.2f} ms (SD {delay['sd']:.2f}, n {delay['n']})"


def _trip_deviations(scans: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the round trips; the only measure if the kernel makes the link."""
    each = {peer: [entry["rtt_ms"].get(peer) for entry in scans] for peer in scans[-1]["rtt_ms"]}
    links = {peer: [link for link in scans[-1]["links"] if link["settings"]["peer"] == peer] for peer in each}
    return [why for peer, trips in each.items() if (why := trip_deviation(trips, links[peer]))]


def _trips(scans: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return by peer the round trips of each scan that saw some."""
    peers = scans[-1]["rtt_ms"]
    return {
        peer: [entry["rtt_ms"][peer] for entry in scans if (entry["rtt_ms"].get(peer) or {}).get("n")] for peer in peers
    }

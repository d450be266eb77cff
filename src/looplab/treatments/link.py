"""Whether emulated links were there, by what their emulators report."""

from collections.abc import Sequence
from math import inf
from typing import Any

from looplab.errors import LabError
from looplab.link import client
from looplab.treatments.judgement import Treatment

NO_LINK = "none"
TIMEOUT_S = 10.0
# Compose kills a run some seconds after it was asked to stop.
CLEAR_TIMEOUT_S = 2.0
# What the mean may lie below the wanted one; above it, a loaded machine adds to it, in each direction.
SHARE_BELOW, MS_BELOW = 0.02, 0.7
SHARE_ABOVE, MS_ABOVE = 0.25, 3.0
# A mean over few packets may deviate so much. In order, a packet may also wait for one that drew this much more.
DEVIATIONS = 4.0
# A scan sends so many echoes.
PINGS = 20


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
    wrong = [why for link in last["links"] if (why := deviation(link))]
    made = [f"{link['settings']['direction']} {_made(link)}" for link in last["links"]]
    # The only measure if the kernel makes the link.
    for peer in last["rtt_ms"]:
        trips = [entry["rtt_ms"].get(peer) for entry in scans]
        why = trip_deviation(trips, [link for link in last["links"] if link["settings"]["peer"] == peer])
        wrong += [why] if why else []
        if known := [trip for trip in trips if trip and trip["n"]]:
            made.append(f"round trip {mean_of(known):.2f} ms (n {count_of(known)})")
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


def deviation(link: dict[str, Any]) -> str:
    """Return what is wrong with one direction, "" if nothing is."""
    direction, delay = link["settings"]["direction"], link["delay_ms"]
    if not link["packets"]:
        return f"no packet came by the {direction} link"
    if link.get("overflowed"):
        return f"{link['overflowed']} packets of the {direction} link were lost by a full queue"
    share, n, dropped = link["settings"]["loss_percent"] / 100, link["packets"], link["dropped"]
    if abs(dropped - share * n) > DEVIATIONS * spread(share, n):
        return f"{dropped} of {n} packets of the {direction} link were dropped, wanted {share:.1%}"
    if not delay["n"]:
        return ""
    return off(f"the {direction} link's", [delay], [link], float(link.get("waits_ms") or 0.0))


def spread(share: float, n: int) -> float:
    """Return the standard deviation of how many of `n` packets fall to a share; at least one packet for any share."""
    return max((n * share * (1 - share)) ** 0.5, 1.0) if share else 0.0


def off(whose: str, made: Sequence[dict[str, Any]], links: Sequence[dict[str, Any]], most_waits_ms: float = inf) -> str:
    """Return what is wrong with the mean of the delays that were `made` through these links, "" if nothing is.

    Waits for other packets may add to it what their order makes them wait, and `most_waits_ms` at most.
    """
    mean_ms, theory_ms = mean_of(made), sum(link["theory_ms"]["mean"] for link in links)
    ordered = (link for link in links if not link["settings"]["reorder"])
    waits_ms = min(most_waits_ms, DEVIATIONS * sum(link["theory_ms"]["sd"] for link in ordered))
    chance_ms = DEVIATIONS * (sum(link["theory_ms"]["sd"] ** 2 for link in links) / count_of(made)) ** 0.5
    least = theory_ms - max(SHARE_BELOW * theory_ms, MS_BELOW) - chance_ms
    slowest = theory_ms + waits_ms
    most = slowest + max(SHARE_ABOVE * slowest, len(links) * MS_ABOVE) + chance_ms
    if least <= mean_ms <= most:
        return ""
    wanted = f"{theory_ms:.2f} ms" + (f" and waits up to {waits_ms:.2f} ms" if waits_ms else "")
    return f"{whose} mean delay is {mean_ms:.2f} ms, wanted {wanted}"


def trip_deviation(trips: Sequence[dict[str, Any] | None], links: Sequence[dict[str, Any]]) -> str:
    """Return what is wrong with the round trips through these links, "" if nothing is; None: nobody may ask."""
    known = [trip for trip in trips if trip and trip["n"]]
    if not known:
        loses = any(link["settings"]["loss_percent"] for link in links)
        return "" if loses or not any(trips) else f"no echo came back from {links[0]['settings']['peer']}"
    return off("the round trip's", known, links)


def count_of(made: Sequence[dict[str, Any]]) -> int:
    return sum(int(entry["n"]) for entry in made)


def mean_of(made: Sequence[dict[str, Any]]) -> float:
    return sum(float(entry["mean"]) * int(entry["n"]) for entry in made) / count_of(made)

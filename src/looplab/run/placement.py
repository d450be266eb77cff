"""A run on several hosts: each part is treated and read by the treatments service of its own host.

LAB_HOSTS lists them, the controller's first: `A=controller,stress= B=broker,stress=10.0.0.2:9110`. What counts time, as
the noise floor does, is judged by the scans of one host: no two clocks are compared. Where the broker has TLS, other
hosts are asked by TLS, too: each has a certificate of the broker's authority for its address.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.run import quiet
from looplab.spec.brokers import DEFAULT
from looplab.spec.roles import BROKER
from looplab.treatments.broker import access
from looplab.treatments.scans import Scan, TreatmentsClient, of_host

# As the treatments service beside the broker reaches it.
BROKER_THERE = "broker:1883"


class PlacedClient(TreatmentsClient):
    """Asks the treatments services of all `hosts`, "NAME=ROLES=ADDRESS" each, as if they were one; others by `tls`."""

    def __init__(self, one: TreatmentsClient, hosts: Sequence[str], tls: ssl.SSLContext | None) -> None:
        self.fault = ""
        self._placed = {}
        for host, roles, address in (words.split("=") for words in hosts):
            url = f"http{'s' if tls else ''}://{address}/facts" if address else ""
            self._placed[host] = (roles.split(","), TreatmentsClient(one.roles, url, tls))

    def scan(self, priorities: Mapping[str, int], published_from: str = "", broker: str = DEFAULT) -> Scan | None:
        """Return the scan of the controller's host with each role as found where it runs, and in `hosts` all scans.

        None if one service does not answer.
        """
        scans = {}
        for host, (placed, client) in self._placed.items():
            asked = BROKER_THERE if published_from and BROKER.name in placed else ""
            if (scan := client.scan(priorities, asked, broker)) is None:
                self.fault = f"host {host}: {client.fault}"
                return None
            scans[host] = {**scan, "placed": placed}
        first = next(iter(scans.values()))
        merged = {**first, "roles": dict(first["roles"]), "hosts": scans}
        for scan in reversed(scans.values()):
            merged["roles"] |= {role: scan["roles"][role] for role in scan["placed"]}
            merged |= {key: scan[key] for key in ("published", "published_clock_ns", "published_counts") if key in scan}
        return merged

    def end_loads(self) -> None:
        for _, client in self._placed.values():
            client.end_loads()


def client_of(one: TreatmentsClient) -> TreatmentsClient:
    """Return `one`, or what asks the services of all hosts where LAB_HOSTS names them. Raises LabError as access."""
    hosts = os.environ.get("LAB_HOSTS", "").split()
    if not hosts:
        return one
    pairing = access()
    return PlacedClient(one, hosts, pairing.context() if pairing and pairing.ca_pem else None)


def document(scans: Sequence[Scan | None]) -> dict[str, Any]:
    """Return what run.json holds of each host: its roles and its noise floor; {} of one host."""
    good = [scan for scan in scans if scan is not None and "hosts" in scan]
    hosts = {
        host: {"roles": own["placed"], "noise_floor": quiet.noise_of_run(of_host(good, host))}
        for host, own in (good[0]["hosts"] if good else {}).items()
    }
    return {"hosts": hosts} if hosts else {}

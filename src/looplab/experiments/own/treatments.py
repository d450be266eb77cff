"""Whether a run of own was as wanted: the broker, priorities by service, sockets, loads and the capture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from looplab.experiments.own import APPLICATION
from looplab.experiments.own.parameters import OwnParameters
from looplab.spec.brokers import BROKERS
from looplab.spec.roles import BROKER, CONTROLLER, LINK, Role
from looplab.treatments import link
from looplab.treatments.judgement import Treatment, compared, judge_nodelay, judge_policy, judge_process
from looplab.treatments.loads import judge_loads
from looplab.treatments.scans import Scan, running


def roles(parameters: OwnParameters, address: Callable[[str], str]) -> list[Role]:
    """Return the experiment's roles, and one for each service of the application that gets a priority."""
    own = [replace(APPLICATION, name=role_of(name), address=address(name)) for name in parameters.priorities]
    return [CONTROLLER, BROKERS[parameters.broker].role, LINK, *own]


def role_of(service: str) -> str:
    """Return the name of a service's role; a service may be called as a role of the lab."""
    return f"{service} (service)"


def priorities(parameters: OwnParameters) -> dict[str, int]:
    """Return the real-time priority of each service by its role."""
    return {role_of(service): priority for service, priority in parameters.priorities.items()}


def judge(
    parameters: OwnParameters, scans: Sequence[Scan], links: Sequence[dict[str, Any]], found: Mapping[str, Any]
) -> list[Treatment]:
    """Judge every treatment by all scans, by those of an emulated link, and by what the capture found."""
    p = parameters
    treatments = [judge_process(scans, CONTROLLER.name)]
    for service, priority in p.priorities.items():
        role = role_of(service)
        treatments += [judge_process(scans, role), judge_policy(scans, role, priority)]
    if p.broker_service == BROKER.name:
        treatments += [
            judge_process(scans, BROKER.name),
            judge_nodelay(scans, BROKER.name, p.tcp_nodelay, p.broker_port),
        ]
    treatments.append(link.judge(p.link, links, any(running(scan, LINK.name) for scan in scans)))
    treatments += judge_loads(p.load, p.load_settings, scans)
    if found:
        treatments.append(compared("packets that the capture lost", "0", str(found["dropped"])))
    return treatments

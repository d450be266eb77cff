"""The loads that a scenario can put on the host: one file here and one service of compose/loop.yaml for each.

A file holds `LOAD = HostLoad("name", …)`; nothing else in Python names a load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from looplab.spec.parameters import param
from looplab.spec.reader import Reader
from looplab.treatments import NO_LOAD
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import HostLoad
from looplab.treatments.scans import Scan, of_host


@cache
def loads() -> dict[str, HostLoad]:
    """Return every load by its name: the modules of this package that hold a `LOAD`."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    known = [module.LOAD for module in modules if hasattr(module, "LOAD")]
    # Tables name the loads in this order.
    return {load.name: load for load in sorted(known, key=lambda load: load.order)}


def choose_load() -> Any:
    """Return the field of a run's load."""
    return param(lambda get, name: get.choice(name, NO_LOAD, (NO_LOAD, *loads())), NO_LOAD)


def read_settings(get: Reader, _name: str) -> dict[str, str]:
    """Return the variables of the run's load; {} without one. Raises UsageError."""
    load = loads().get(get.choice("LOAD", NO_LOAD, (NO_LOAD, *loads())))
    return load.read(get) if load else {}


def judge_loads(wanted: str, settings: Mapping[str, str], scans: Sequence[Scan]) -> list[Treatment]:
    """Judge each load on each host: the `wanted` one where it was placed, none elsewhere."""
    treatments: list[Treatment] = []
    for host, own in {host: of_host(scans, host) for host in scans[0].get("hosts", ())}.items() or [("", scans)]:
        here = wanted if wanted in own[0].get("placed", (wanted,)) else NO_LOAD
        judged = [load.judge(own, wanted=load.name == here) for load in loads().values()]
        if load := loads().get(here):
            judged += [*load.judge_options(own, settings), *load.judge_strength(own, settings)]
        treatments += [replace(one, what=f"{one.what} on {host}" if host else one.what) for one in judged]
    return treatments

"""The loads that a scenario can put on the host: one file here and one service of compose/loop.yaml for each.

A file holds `LOAD = HostLoad("name", …)`; nothing else in Python names a load.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from looplab.treatments.loads.load import HostLoad


@cache
def loads() -> dict[str, HostLoad]:
    """Return every load by its name: the modules of this package that hold a `LOAD`."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    known = [module.LOAD for module in modules if hasattr(module, "LOAD")]
    # Tables name the loads in this order.
    return {load.name: load for load in sorted(known, key=lambda load: load.order)}

"""A process that drives devices: it reads a plan from its standard input, and prints what became of each request.

It prints an empty line once it is ready, and begins when its standard input ends.
"""

# ruff: noqa: E402
from gevent import monkey

# This comes first: it replaces the sockets of the standard library.
monkey.patch_all()

import json
import os
import sys
import time

import gevent
from gevent.pool import Group

from looplab.experiments.middleware.devices import PROCESS, DevicePlan
from looplab.experiments.middleware.devices.device import Device, Fleet
from looplab.experiments.middleware.placement import others
from looplab.experiments.middleware.systems import client_of
from looplab.system import own_process
from looplab.system.machine_facts import usable_processors

REPORT_S = 0.2


def report(fleet: Fleet, **last: object) -> None:
    """Print the requests that ended since the last report, which are then forgotten."""
    ended, fleet.ended = fleet.ended, []
    print(json.dumps({"now_ns": fleet.now_ns(), "ended": ended, **last}), flush=True)


def run(fleet: Fleet) -> None:
    """Drive the devices, each until its last answer or its deadline; the last report holds what this process used."""
    plan, devices = fleet.plan, Group()
    used_s, begun_s = time.process_time(), time.perf_counter()
    for number in plan.numbers:
        devices.spawn(Device(fleet, number).run)
    while (left_ns := plan.end_ns - fleet.now_ns()) > 0:
        report(fleet)
        gevent.sleep(min(REPORT_S, left_ns / 1e9))
    share = round((time.process_time() - used_s) / (time.perf_counter() - begun_s), 4)
    while len(devices) and fleet.now_ns() < plan.end_ns + plan.deadline_ns:
        report(fleet)
        devices.join(REPORT_S)
    devices.kill()
    report(fleet, processor_share=share)


def main() -> None:
    """Run one plan, and end this process."""
    own_process.set_name(PROCESS)
    # Devices must not take processor time from the middleware.
    os.sched_setaffinity(0, others(usable_processors()))
    order = json.loads(sys.stdin.readline())
    adapter = client_of(order["system"]).Adapter
    print(flush=True)
    sys.stdin.read()
    run(Fleet(DevicePlan(**order["plan"]), order["entries"], adapter))
    # The threads of gevent's resolver would print warnings while the interpreter ends.
    os._exit(0)


if __name__ == "__main__":
    main()

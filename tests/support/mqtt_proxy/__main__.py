"""The command: `python -m support.mqtt_proxy`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, EXIT_USAGE, LabError
from support.mqtt_proxy.process import READY_WORD
from support.mqtt_proxy.proxy import Address, ImpairmentLoop
from support.mqtt_proxy.rules import load_rules

DESCRIPTION = """A link with known impairments between MQTT clients and their broker.
SIGTERM or SIGINT ends it and writes the ledger of all it did."""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except LabError as error:
        print(f"impairment: {error}", file=sys.stderr)
        return error.exit_code
    return EXIT_GOOD


def _run(options: argparse.Namespace) -> None:
    rules = load_rules(options.rules) if options.rules else []
    _check_writable(options.ledger)
    loop = ImpairmentLoop(_address("--listen", options.listen), _address("--to", options.to), rules)
    signal.set_wakeup_fd(loop.wake_descriptor, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    host, port = loop.address
    print(f"{READY_WORD} {host}:{port}", flush=True)
    try:
        loop.run()
    finally:
        signal.set_wakeup_fd(-1)
        _write(options.ledger, json.dumps(loop.ledger.to_dict(), indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m support.mqtt_proxy", description=DESCRIPTION)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="where clients connect")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="the broker")
    parser.add_argument("--rules", type=Path, metavar="FILE", help="JSON list of rules; without it, none")
    parser.add_argument("--ledger", type=Path, required=True, metavar="FILE", help="JSON, written at the end")
    return parser


def _address(option: str, text: str) -> Address:
    host, _, port = text.rpartition(":")
    lowest = 0 if option == "--listen" else 1
    if not host or not port.isdecimal() or not lowest <= int(port) <= 65535:
        remedy = f"write for example {option} 127.0.0.1:1883"
        raise LabError(f"{option} is {text!r}, not HOST:PORT", remedy, EXIT_USAGE)
    return host, int(port)


def _check_writable(path: Path) -> None:
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        remedy = "give --ledger a file in a folder of yours"
        raise LabError(f"the ledger {path} cannot be written", remedy, EXIT_USAGE)


def _write(path: Path, text: str) -> None:
    """Under a temporary name first, so that a ledger is whole or not there."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        message = f"the ledger {path} was not written: {error.strerror}"
        raise LabError(message, "make room for it", EXIT_MACHINE) from error


if __name__ == "__main__":
    sys.exit(main())

"""`make flash` by the real avrdude, through the board's real boot loader, into a simulated bare ATmega2560."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.board import IDENTITY

pytestmark = [pytest.mark.engine, pytest.mark.flag("LAB_FLASH")]

BOARD = Path(__file__).with_name("boot_board.c")
LOADER = "/usr/share/arduino/hardware/arduino/avr/bootloaders/stk500v2/stk500boot_v2_mega2560.hex"
# Opening the port resets the board; what it is told before its boot loader has ended is lost.
TALK = """
exec 3<>/tmp/ttyUSB0
read -r line <&3 && echo "robot: $line"
printf '%s' '{requests}' >&3
for _ in {lines}; do read -r line <&3 && echo "robot: $line"; done
exec 3>&-
"""
SCRIPT = """
set -eu
cat >/tmp/boot_board.c
export DEBIAN_FRONTEND=noninteractive
{{ apt-get -qq update && apt-get -qq install -y --no-install-recommends avrdude; }} >/dev/null 2>&1
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -o /tmp/boot_board /tmp/boot_board.c -lsimavr -lutil
/tmp/boot_board {loader} /tmp/ttyUSB0 2>/tmp/board.log &
flash() {{ timeout 60 make -C /src/firmware/mbot_ranger "$@" flash PORT=/tmp/ttyUSB0 2>&1; }}
flash BUILD=/build/firmware
timeout 30 sh -c '{asked}'
flash BUILD=/tmp/hanging DEFINES=-DLOOPLAB_FAULT_REQUEST
timeout 30 sh -c '{hung}'
"""


def test_make_flash_writes_what_the_boot_loader_then_starts(in_build_image: Callable[..., str]) -> None:
    """Twice: the firmware, and one that hangs when asked to, whose watchdog comes back through the boot loader."""
    talks = [TALK.format(requests=asked, lines=lines).replace("'", '"') for asked, lines in (("?L", "1 2"), ("H", "1"))]
    said = in_build_image(SCRIPT.format(loader=LOADER, asked=talks[0], hung=talks[1]), BOARD.read_text())
    print(said)
    assert said.count("bytes of flash verified") == 2
    robot = [line.removeprefix("robot: ").strip() for line in said.splitlines() if line.startswith("robot: ")]
    assert robot[:2] == [f"{IDENTITY} ready", IDENTITY]
    assert robot[2].isdigit()
    assert robot[3:] == [f"{IDENTITY} ready", f"{IDENTITY} ready"], "the second by its watchdog"

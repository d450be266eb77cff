"""The robot's own fixtures: its firmware's arithmetic on the host, and the whole robot in the simulator."""

import contextlib
import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.asip_parts import asip_files  # noqa: F401
from support.board import ROBOT_FILES, Board
from support.containers import copy_out, docker, own_image
from support.image_harness import build
from support.places import ROOT
from support.tools import program

FIRMWARE = ROOT / "firmware" / "mbot_ranger"
BUILD_IMAGE = "looplab-test/robot-build"


@pytest.fixture(scope="session")
def c_functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The firmware's and the simulator's plain C files, compiled for this host; undefined behaviour ends the run."""
    compiler = program("gcc")
    library = tmp_path_factory.mktemp("firmware") / "firmware.so"
    command = [
        compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC",
        "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-o", str(library),
        str(FIRMWARE / "protocol.c"), str(FIRMWARE / "thermistor.c"), str(ROOT / "images/robot/plant.c"), "-lm",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def robot_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the statically linked board program and of the firmware, copied out of the image."""
    folder = tmp_path_factory.mktemp("robot")
    copy_out(own_image("robot"), folder, *ROBOT_FILES)
    return folder


@pytest.fixture(scope="session")
def in_build_image() -> Callable[..., str]:
    """Return a function that runs a shell script, with this input, beside the robot's sources and build tools."""
    build(BUILD_IMAGE, ".", "images/robot/Dockerfile", "--target", "build")

    def run(script: str, given: str = "") -> str:
        return docker("run", "--rm", "--interactive", BUILD_IMAGE, "sh", "-c", script, given=given, timeout_s=540)

    return run


@pytest.fixture(scope="session")
def hanging_firmware(in_build_image: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same firmware with one more request, H, at which it hangs: for the watchdog's test."""
    make = "make -s -C /src/firmware/mbot_ranger BUILD=/tmp/firmware DEFINES=-DLOOPLAB_FAULT_REQUEST >&2"
    hex_text = in_build_image(f"{make} && cat /tmp/firmware/mbot_ranger.hex")
    path = tmp_path_factory.mktemp("fault") / "mbot_ranger.hex"
    path.write_text(f"{hex_text}\n")
    return path


@pytest.fixture
def start_robot(robot_files: Path, tmp_path: Path, at_end: contextlib.ExitStack) -> Callable[..., Board]:
    """Starts robots on a free port, with no boot loader wait unless the options say otherwise."""

    def start(*options: str, firmware: str | Path = "mbot_ranger.hex") -> Board:
        usual = ("--tcp", "127.0.0.1:0", "--boot-ms", "0")
        return at_end.enter_context(contextlib.closing(Board(robot_files, tmp_path, firmware, *usual, *options)))

    return start

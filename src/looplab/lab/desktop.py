"""Open a page with the desktop of the host."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from looplab.errors import MachineError

# An opener that has not failed by then shows the page.
OPENER_PATIENCE_S = 5.0


def open_page(page: Path) -> None:
    """Open a page with the desktop's opener; without a desktop, print its address."""
    address = page.resolve().as_uri()
    program = _opener()
    if not program:
        print(f"No desktop here. Open this address in a browser:\n{address}")
        return
    quiet = subprocess.DEVNULL
    started = subprocess.Popen([program, str(page)], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        code = started.wait(OPENER_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return
    if code:
        raise MachineError(
            f"`{program}` could not open the report: exit code {code}.", f"Open this address in a browser: {address}"
        )


def _opener() -> str:
    """Return the program that opens a page on this desktop, "" if there is none."""
    if sys.platform == "darwin":
        return "open"
    # wslview of WSL opens it in Windows.
    if shutil.which("wslview"):
        return "wslview"
    desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return "xdg-open" if desktop and shutil.which("xdg-open") else ""

"""Dashboards as pictures: Chromium runs Grafana's own libraries (page.jsx) over a Prometheus.

Needs Node 20 with npm, and Debian's chromium, pngquant and fonts-inter.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent
PATIENCE_MS = 15_000


def build() -> None:
    """Install the packages on first use and bundle the page."""
    if not (PAGE / "node_modules/@grafana/ui").exists():
        install = ["npm", "install", "--legacy-peer-deps", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=PAGE, check=True, timeout=900)
    subprocess.run(["npm", "run", "--silent", "build"], cwd=PAGE, check=True, timeout=300)


def draw(given: dict[str, Any], picture: Path, width: int, height: int, colours: int = 256) -> None:
    """Draw what page.jsx takes as window.LOOPLAB, without the height, into a PNG; `build` comes first."""
    page = PAGE / "build" / f"{picture.stem}.html"
    script = json.dumps({**given, "height": height}).replace("<", "\\u003c")
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
        "<style>body { background: #f4f5f5; margin: 0 }</style>"
        f'<body><script>window.LOOPLAB = {script}</script><script src="page.js"></script>',
        encoding="utf-8",
    )
    photograph(page, picture, width, height, colours)


def photograph(page: Path, picture: Path, width: int, height: int, colours: int = 256) -> None:
    """Photograph a page in Chromium after PATIENCE_MS of its own time; write a PNG of at most so many colours.

    Raises RuntimeError with the reason of a page whose title says that it failed.
    """
    window = f"--window-size={width},{height}"
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--disable-gpu", "--hide-scrollbars", "--no-sandbox", f"--user-data-dir={profile}"]
        options += ["--allow-file-access-from-files", f"--virtual-time-budget={PATIENCE_MS}", window]
        shot = f"--screenshot={picture}"
        command = ["chromium", *options, shot, "--dump-dom", page.as_uri()]
        drawn = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    if failed := re.search(r"<title>failed: (.*?)</title>", drawn):
        picture.unlink()
        raise RuntimeError(failed[1])
    reduced = ["pngquant", "--force", "--strip", "--ext", ".png", str(colours), str(picture)]
    subprocess.run(reduced, check=True, timeout=60)

"""Write the dashboards: PYTHONPATH=src .venv/bin/python grafana/generate.py"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generator.compare import compare_scenarios
from generator.home import home
from generator.live import live
from generator.machine import machine_and_parts
from generator.plain import plain

from looplab.experiments.registry import EXPERIMENTS

FOLDER = Path(__file__).parent / "dashboards"


def files() -> dict[Path, str]:
    """Return the content of each generated file."""
    dashboards = {"live": live(), "compare-scenarios": compare_scenarios()}
    dashboards |= {name: plain(one) for name, one in EXPERIMENTS.items() if name != EXPERIMENTS.default}
    dashboards |= {"machine-and-parts": machine_and_parts()}
    dashboards = {"home": home(list(dashboards.values())), **dashboards}
    return {
        FOLDER / f"{name}.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, content in dashboards.items()
    }


if __name__ == "__main__":
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"written: grafana/dashboards/{path.name}")

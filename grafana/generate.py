"""Write the dashboards; with --check only report which are out of date.

PYTHONPATH=src .venv/bin/python grafana/generate.py [--check]
"""

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

ROOT = Path(__file__).parent.parent


def files() -> dict[Path, str]:
    """Return the content of each generated file."""
    dashboards = {"live": live(), "compare-scenarios": compare_scenarios()}
    dashboards |= {name: plain(one) for name, one in EXPERIMENTS.items() if name != EXPERIMENTS.default}
    dashboards |= {"machine-and-parts": machine_and_parts()}
    dashboards = {"home": home(list(dashboards.values())), **dashboards}
    return {
        ROOT / "grafana" / "dashboards" / f"{name}.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, content in dashboards.items()
    }


def main() -> int:
    """Return exit code 1 if --check finds a file that is out of date."""
    check = "--check" in sys.argv[1:]
    stale = {
        path: text for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if not check:
            path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{'out of date' if check else 'written'}: {path.relative_to(ROOT)}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the dashboards and the published figures' rules; with --check only say whether they are up to date.

PYTHONPATH=src python3 grafana/generate.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generator.compare import compare_scenarios
from generator.delay import qos_and_delay
from generator.host import broker_and_host
from generator.live import live_loop
from generator.published import rules_text

ROOT = Path(__file__).parent.parent


def files() -> dict[Path, str]:
    """Each generated file and what belongs into it."""
    dashboards = {
        "live-loop.json": live_loop(),
        "compare-scenarios.json": compare_scenarios(),
        "broker-and-host.json": broker_and_host(),
        "qos-and-delay.json": qos_and_delay(),
    }
    made = {
        ROOT / "grafana" / "dashboards" / name: json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, content in dashboards.items()
    }
    made[ROOT / "compose" / "prometheus" / "published.yml"] = rules_text()
    return made


def main() -> int:
    """Exit code 1 where --check finds a file that is out of date."""
    stale = []
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if "--check" not in sys.argv[1:]:
                path.write_text(text, encoding="utf-8", newline="\n")
    for path in stale:
        print(f"{'out of date' if '--check' in sys.argv[1:] else 'written'}: {path.relative_to(ROOT)}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())

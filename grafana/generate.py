"""Write the dashboards and the rules of the published figures; with --check only report which are out of date.

PYTHONPATH=src .venv/bin/python grafana/generate.py [--check]
"""

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parent))

from generator import experiments
from generator.dashboard import Dashboard
from generator.home import home
from generator.host import broker_and_host
from generator.published_rules import Rule, rules_text

from looplab.experiments import registry

ROOT = Path(__file__).parent.parent


def modules() -> list[ModuleType]:
    """Return the module of each experiment, in the registry's order."""
    known = [registry.EXPERIMENTS[name].package.rpartition(".")[2] for name in registry.EXPERIMENTS]
    names = sorted((found.name for found in pkgutil.iter_modules(experiments.__path__)), key=known.index)
    return [importlib.import_module(f"{experiments.__name__}.{name}") for name in names]


def files() -> dict[Path, str]:
    """Return the content of each generated file."""
    dashboards: dict[str, Dashboard] = {}
    rules: list[Rule] = []
    for module in modules():
        dashboards |= module.dashboards()
        rules += module.published() if hasattr(module, "published") else []
    dashboards |= {"broker-and-host.json": broker_and_host()}
    dashboards = {"home.json": home(list(dashboards.values())), **dashboards}
    made = {
        ROOT / "grafana" / "dashboards" / name: json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, content in dashboards.items()
    }
    made[ROOT / "compose" / "prometheus" / "published.yml"] = rules_text(rules)
    return made


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

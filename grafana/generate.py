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

from generator import experiments, plain
from generator.dashboard import Dashboard
from generator.home import home
from generator.machine import broker_and_host
from generator.published_rules import Rule, rules_text

from looplab.experiments import registry

ROOT = Path(__file__).parent.parent


def modules() -> dict[str, ModuleType | None]:
    """Return the module of each experiment, None for one without."""
    own = {found.name for found in pkgutil.iter_modules(experiments.__path__)}
    packages = {name: one.package.rpartition(".")[2] for name, one in registry.EXPERIMENTS.items()}
    return {
        name: importlib.import_module(f"{experiments.__name__}.{package}") if package in own else None
        for name, package in packages.items()
    }


def files() -> dict[Path, str]:
    """Return the content of each generated file."""
    dashboards: dict[str, Dashboard] = {}
    rules: list[Rule] = []
    for name, module in modules().items():
        dashboards |= module.dashboards() if module else plain.dashboards(registry.EXPERIMENTS[name])
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

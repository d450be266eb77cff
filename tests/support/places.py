"""Where the checkout is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORED_RUNS = ROOT / "tests/support/stored_runs"

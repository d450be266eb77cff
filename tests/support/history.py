"""A Prometheus with a past of its own: the same numbers at the same times, wherever and whenever it starts.

Simulated runs of qos-delay, twin, middleware and asip are measured one after the other, then a recorded run of
scenario 5, the nine scenarios beside them. `python -m support.history URL TIME` records that run again.
"""

import contextlib
import json
import lzma
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.live import LiveFolder
from looplab.exporter.server import all_families
from looplab.exporter.stored import StoredRuns
from looplab.metrics.text_format import FAMILIES, Texts, line, page
from support.every_experiment import BEGINNINGS, ENDINGS
from support.parts import HOST, Child, free_port
from support.places import ROOT
from support.simulated_runs import nine_scenarios
from support.waiting import until

RECORDED = Path(__file__).with_name("recorded_run.json.xz")
RECORDED_KEY = ("scenario5", "thesis")
# 2025-01-01 00:00:00 UTC: before any test, and an hour's beginning.
BEGIN_S = 1_735_689_600
PERIOD_S, STORED_STEP_S = 120, 15
# Of a period: how long its run is measured before it is stored.
MEASURED_S = 90
ORDER = ("qos-delay", "twin", "middleware", "asip", "loop")
LOOP_S = BEGIN_S + ORDER.index("loop") * PERIOD_S
END_S = BEGIN_S + len(ORDER) * PERIOD_S
GROWING = re.compile(r"(_total|_bucket|_count|_sum)[{ ]")


def end_s(name: str) -> int:
    """Return when the period of an experiment ends, its run stored; of `loop` still measured."""
    return BEGIN_S + (ORDER.index(name) + 1) * PERIOD_S


def _samples(parts: list[Texts], job: str, at_s: int, share: float = 1.0) -> Iterator[str]:
    """Yield a page's samples at a time, what grows being `share` of itself."""
    for sample in page(parts, {**all_families(EXPERIMENTS), **FAMILIES}).decode().splitlines():
        if sample.startswith("#"):
            continue
        name, value = sample.rsplit(" ", 1)
        grown = int(float(value) * share) if GROWING.search(sample) and share < 1 else value
        yield f"{name} {grown} {at_s}\n"
    yield f'up{{job="{job}"}} 1 {at_s}\n'


def _measured(folder: Path) -> Iterator[str]:
    """Yield each experiment's running run, once a second; its counts grow evenly."""
    for name, begin in BEGINNINGS.items():
        live = folder / f"live-{name}"
        live.mkdir()
        begin(live)
        followed = LiveFolder(live, EXPERIMENTS)
        run = followed.run(frozenset())
        assert run is not None, name
        texts, first = followed.texts(run), end_s(name) - PERIOD_S
        for second in range(MEASURED_S):
            yield from _samples([texts], "live", first + second, (second + 1) / MEASURED_S)


def _stored(results: Path) -> Iterator[str]:
    """Yield the finished runs as the exporter offers them: each without the one that is being measured."""
    runs = StoredRuns(results, EXPERIMENTS)
    runs.refresh()
    damaged = {"lab_damaged_runs": line("lab_damaged_runs", {}, len(runs.damaged))}
    for at_s in range(BEGIN_S, END_S + 1, STORED_STEP_S):
        period, second = divmod(at_s - BEGIN_S, PERIOD_S)
        name = ORDER[min(period, len(ORDER) - 1)]
        hidden = {(name, "thesis") if name != "loop" else RECORDED_KEY} if second < MEASURED_S or name == "loop" else {}
        texts = [text for key, (_run_id, text) in sorted(runs.newest.items()) if key not in hidden]
        yield from _samples([*texts, damaged], "stored", at_s)


def _recorded() -> Iterator[str]:
    """Yield the recorded run, which ends with the history."""
    for series, values in json.loads(lzma.decompress(RECORDED.read_bytes())).items():
        for offset_s, value in values:
            yield f"{series} {value} {END_S + offset_s}\n"
    for second in range(LOOP_S, END_S):
        yield f'up{{job="live"}} 1 {second}\n'


@contextlib.contextmanager
def history(folder: Path) -> Iterator[str]:
    """Yield the URL of a Prometheus that holds it, recording rules included."""
    results, data = folder / "results", folder / "data"
    results.mkdir()
    nine_scenarios(results)
    for write in ENDINGS.values():
        write(results)
    text = folder / "history.txt"
    samples = [*_stored(results), *_measured(folder), *_recorded()]
    samples.sort(key=lambda sample: int(sample.rpartition(" ")[2]))
    text.write_text("".join([*samples, "# EOF\n"]))
    _promtool("create-blocks-from", "openmetrics", str(text), str(data))
    times = [f"--start={BEGIN_S}", f"--end={END_S}", "--eval-interval=5s", f"--output-dir={data}"]
    rules = [str(ROOT / "compose/prometheus" / name) for name in ("rules.yml", "published.yml")]
    with _prometheus(folder, data) as url:
        _promtool("create-blocks-from", "rules", f"--url={url}", *times, *rules)
    with _prometheus(folder, data) as url:
        yield url
    shutil.rmtree(data)


def _promtool(*words: str) -> None:
    done = subprocess.run(["promtool", "tsdb", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@contextlib.contextmanager
def _prometheus(folder: Path, data: Path) -> Iterator[str]:
    (folder / "empty.yml").write_text("global: {}\n")
    url = f"http://{HOST}:{free_port()}"
    options = [f"--config.file={folder / 'empty.yml'}", f"--storage.tsdb.path={data}", "--web.cors.origin=.*"]
    options += ["--storage.tsdb.retention.time=100y", f"--web.listen-address={url.removeprefix('http://')}"]
    child = Child(["prometheus", *options], folder / "prometheus.log", {})
    try:
        until(lambda: urllib.request.urlopen(f"{url}/-/ready", timeout=2).status == 200, "Prometheus is ready", 30)
        yield url
    finally:
        child.signal(signal.SIGTERM)
        child.wait()


def record(prometheus: str, at_s: float, seconds: int = PERIOD_S) -> None:
    """Record the running lab's metrics of the seconds up to `at_s` (Unix time)."""
    query = f'{{__name__=~"(loop|lab)_.*",__name__!="lab_damaged_runs",scenario=~"|{RECORDED_KEY[0]}"}}[{seconds}s]'
    asked = urllib.parse.urlencode({"query": query, "time": at_s})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query?{asked}", timeout=60) as answer:
        found = json.load(answer)["data"]["result"]
    series = {}
    for one in found:
        labels = {name: value for name, value in one["metric"].items() if name not in ("__name__", "job")}
        name = line(one["metric"]["__name__"], labels, 0).rsplit(" ", 1)[0]
        series[name] = [(round(second - at_s), value) for second, value in one["values"]]
    RECORDED.write_bytes(lzma.compress(json.dumps(series).encode(), preset=9))


if __name__ == "__main__":
    record(sys.argv[1], float(sys.argv[2]))

"""Every dashboard drawn in Chromium by Grafana's own panels over one past, and compared with the kept pictures.

The database of the digital twin is a real PostgreSQL. A dashboard that looks different on purpose: look at its new
picture, then copy it over the kept one. With LAB_GRAFANA_SCENES=1, because of its packages.
"""

import datetime
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psycopg
import pytest
from PIL import Image
from support.dashboards import PATHS, load
from support.history import END_S, LOOP_S, PERIOD_S, end_s, history
from support.places import ROOT
from support.postgres import Postgres, open_folder

from looplab.experiments.twin.message import payload

pytestmark = pytest.mark.flag("LAB_GRAFANA_SCENES")

KEPT = Path(__file__).with_name("pictures")
WIDTH_PX, KEPT_PX, COLOURS = 1280, 640, 32
# A tile of the kept size differs if a pixel in so many does by more than so much, after a blur of one pixel.
TILE_PX, TOLERATED, SHARE = 16, 40, 0.03
# When a dashboard is drawn: at the end of its experiment's measurement; if unnamed, of the loop's.
DRAWN_AT_S = {
    "qos-and-delay": end_s("qos-delay"),
    "digital-twin": end_s("twin"),
    "iot-middleware": end_s("middleware"),
    "serial-tcp-mqtt": end_s("asip"),
    # All nine scenarios are stored until the recorded one is measured again.
    "compare-scenarios": LOOP_S - 1,
}
DEVICES, ROWS = 3, 900


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drawing", ROOT / "grafana/pictures/drawing.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.build()
    return made


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with history(tmp_path_factory.mktemp("history")) as url:
        yield url


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """Three devices, a row each 100 ms, in the minutes in which the twin was measured."""
    with open_folder() as folder:
        found = Postgres(folder)
        begin_s = end_s("twin") - 100
        values = ", ".join(
            f"('ffffffff', {1 + k % DEVICES}, {k}, {k}, {k}, to_timestamp({begin_s + k / 10}), "
            f"'\\x{payload(b'ffffffff', 1 + k % DEVICES, k, k, 64).hex()}')"
            for k in range(ROWS)
        )
        names = "run, device, sequence, sent_ns, arrived_ns, stored_at, payload"
        found.do(f"INSERT INTO message ({names}) VALUES {values}")
        yield found
        found.close()


def answers(database: Postgres, dashboard: dict[str, Any], from_s: int, to_s: int) -> dict[str, Any]:
    """Return what the database answers to each SQL query as Grafana's user, times in milliseconds."""
    queries = [
        target["rawSql"] for panel in dashboard["panels"] for target in panel.get("targets", ()) if "rawSql" in target
    ]
    between = rf"\1 BETWEEN to_timestamp({from_s}) AND to_timestamp({to_s})"
    found = {}
    with psycopg.connect(database.conninfo("twin_reader")) as session:
        for query in queries:
            cursor = session.execute(re.sub(r"\$__timeFilter\((\w+)\)", between, query))  # type: ignore[call-overload]
            rows = [[plain(value) for value in row] for row in cursor.fetchall()]
            types = [
                "time" if column.type_display.startswith("timestamp") else "number" for column in cursor.description
            ]
            columns = [
                {"name": column.name, "type": kind} for column, kind in zip(cursor.description, types, strict=True)
            ]
            found[query] = {"columns": columns, "rows": rows}
    return found


def plain(value: Any) -> float:
    return value.timestamp() * 1000 if isinstance(value, datetime.datetime) else float(value)


def kept_size(picture: Path) -> Image.Image:
    """Return a picture as it is kept: of half the width, of few colours."""
    with Image.open(picture) as image:
        size = (KEPT_PX, round(image.height * KEPT_PX / image.width))
        return image.convert("RGB").resize(size, Image.Resampling.BOX).quantize(COLOURS)


def differences(left: Image.Image, right: Image.Image) -> list[tuple[int, int]]:
    """Return the (x, y) of the tiles in which two pictures of one size differ."""
    far = np.abs(blurred(left) - blurred(right)).max(axis=2) > TOLERATED
    return [
        (x, y)
        for y in range(0, far.shape[0], TILE_PX)
        for x in range(0, far.shape[1], TILE_PX)
        if far[y : y + TILE_PX, x : x + TILE_PX].mean() > SHARE
    ]


def blurred(image: Image.Image) -> np.ndarray:
    """Return the mean of each pixel and its eight neighbours, so that a shift of half a pixel counts little."""
    pixels = np.pad(np.asarray(image.convert("RGB"), dtype=float), ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width = image.height, image.width
    shifted = [pixels[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.mean(shifted, axis=0)


def draw(drawing: ModuleType, prometheus: str, dashboard: dict[str, Any], name: str, sql: dict[str, Any]) -> Path:
    """Draw a dashboard as it is at the end of its experiment's period; return the file."""
    to_s = DRAWN_AT_S.get(name, END_S)
    given = {"dashboard": dashboard, "prometheus": prometheus, "from": to_s - PERIOD_S, "to": to_s, "chosen": {}}
    picture = ROOT / f"grafana/pictures/build/{name}.png"
    drawing.draw({**given, "sql": sql}, picture, WIDTH_PX, drawing.height_px(dashboard))
    return picture


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_dashboard_looks_as_its_kept_picture(
    drawing: ModuleType, prometheus: str, database: Postgres, path: Path
) -> None:
    dashboard, name = load(path), path.stem
    sql = answers(database, dashboard, end_s("twin") - PERIOD_S, end_s("twin"))
    whole = draw(drawing, prometheus, dashboard, name, sql)
    new = whole.with_name(f"{name}-kept.png")
    kept_size(whole).save(new, optimize=True)
    kept = KEPT / f"{name}.png"
    assert kept.exists(), f"look at {whole}; if it is right, copy {new} to {kept}"
    with Image.open(kept) as before, Image.open(new) as after:
        assert before.size == after.size, f"{before.size} is now {after.size}: {whole}"
        found = differences(before, after)
    assert not found, f"{len(found)} tiles differ, at {found[:6]} of {new}; the whole picture is {whole}"


def retitled(panels: list[Any]) -> None:
    panels[2]["title"] = panels[2]["title"].replace("measured", "drawn")


def without_a_curve(panels: list[Any]) -> None:
    panels[3]["targets"] = []


def in_other_units(panels: list[Any]) -> None:
    panels[1]["fieldConfig"]["defaults"]["unit"] = "none"


@pytest.mark.parametrize("change", [None, retitled, without_a_curve, in_other_units])
def test_a_changed_panel_is_seen(drawing: ModuleType, prometheus: str, tmp_path: Path, change: Any) -> None:
    dashboard = load(ROOT / "grafana/dashboards/serial-tcp-mqtt.json")
    if change:
        change(dashboard["panels"])
    found = kept_size(draw(drawing, prometheus, dashboard, "serial-tcp-mqtt", {}))
    with Image.open(KEPT / "serial-tcp-mqtt.png") as kept:
        assert bool(differences(kept, found)) is (change is not None)

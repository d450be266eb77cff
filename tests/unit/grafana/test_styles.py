"""What is seen of the dashboards: colours, titles, the first screen."""

import re
from typing import Any

import pytest
from support.contrast import contrast
from support.dashboards import PATHS, each_panel, load
from support.places import ROOT


def colour_of(panel: dict[str, Any], series: str) -> str | None:
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/")
        if matcher["id"] == "byRegexp" and re.search(pattern, series):
            for prop in override["properties"]:
                if prop["id"] == "color":
                    return str(prop["value"]["fixedColor"])
    return None


def test_a_scenario_has_one_colour_everywhere() -> None:
    panels = [p for p in load(ROOT / "grafana/dashboards/compare-scenarios.json")["panels"] if p["type"] == "xychart"]
    assert len(panels) == 7
    colours = [
        {f"scenario{n}": colour_of(panel, f"scenario{n} thesis 20 ms QoS 0") for n in range(9)} for panel in panels
    ]
    assert all(found == colours[0] for found in colours)
    assert len(set(colours[0].values())) == 9
    assert None not in colours[0].values()
    assert colour_of(panels[0], "scenario2 published") == colours[0]["scenario2"]
    assert colour_of(panels[0], "scenario22: words thesis") is None


_PAGES = ("#FFFFFF", "#181B1F")


def test_every_colour_is_seen_on_a_light_and_on_a_dark_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PATHS)
    found = set(re.findall(r'"(#[0-9A-Fa-f]{6})"', text))
    assert len(found) > 12
    # WCAG 2.2, 1.4.11: lines and other graphics need 3:1.
    assert {(c, page): contrast(c, page) for c in found for page in _PAGES if contrast(c, page) < 3} == {}


# Grafana's grid on a projector of 1280 x 720: 24 columns wide, and 16 rows of 38 pixels below its bars.
COLUMN_PX, ROWS_SEEN = 1272 / 24, 16
# Inter at 14 pixels, the title's padding and the sign of its description.
CHARACTER_PX, AROUND_PX = 7.1, 50


@pytest.mark.parametrize("panel", list(each_panel()))
def test_no_title_is_cut_on_a_projector(panel: dict[str, Any]) -> None:
    longest = panel["title"].replace("$metric", "O")
    assert len(longest) * CHARACTER_PX + AROUND_PX <= panel["gridPos"]["w"] * COLUMN_PX - 8, longest


def test_live_tells_its_story_before_scrolling() -> None:
    found = load(ROOT / "grafana/dashboards/live.json")
    seen = [p["title"] for p in found["panels"] if p["gridPos"]["y"] + p["gridPos"]["h"] <= ROWS_SEEN]
    begun = [p["title"] for p in found["panels"] if p["gridPos"]["y"] < ROWS_SEEN - 1]
    assert seen == begun, "no panel is cut"
    assert len(found["panels"]) <= 8
    for word in ("Run", "Messages", "Latencies", "Send lateness", "Deadline misses"):
        assert any(title.startswith(word) for title in seen), word
    assert found["time"]["from"] == "now-2m"
    assert found["refresh"] in ("2s", "5s")

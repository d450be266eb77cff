"""Pages and figures can be read: contrast after WCAG 2, and never by colour alone."""

import re

from support.contrast import contrast
from support.places import ROOT

from looplab.report.drawing import STYLES

CSS = (ROOT / "src/looplab/report/page.css").read_text()
# What WCAG 2.2 wants: 4.5 for text, 3 for the lines of a figure.
TEXT, GRAPHICS = 4.5, 3.0


def test_text_and_curves_stand_out_from_their_ground() -> None:
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", CSS))
    for name in ("ink", "soft", "link"):
        assert min(contrast(colours[name], ground) for ground in ("#ffffff", colours["ground"])) >= TEXT, name
    assert min(contrast(colour, "#ffffff") for colour, _line, _mark in STYLES) >= GRAPHICS
    assert len({mark for _colour, _line, mark in STYLES}) == len(STYLES)

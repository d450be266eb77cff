"""Handouts on paper: each as one HTML page, the form with boxes and lines to write on at its end."""

import posixpath
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from looplab.exercises.exercise import Question, exercises, read_exercise
from looplab.spec.experiment import Experiments

# A free-text answer: two sentences and a figure.
LINES_TO_WRITE = 4
STYLE = """
@page { size: A4; margin: 18mm 18mm 16mm; }
body { font: 10.5pt/1.45 "DejaVu Sans", system-ui, sans-serif; color: #000; background: #fff; }
h1 { font-size: 17pt; margin: 0 0 4mm; } h2 { font-size: 13pt; margin: 6mm 0 2mm; break-after: avoid; }
h3 { font-size: 11pt; margin: 4mm 0 1mm; break-after: avoid; }
table { border-collapse: collapse; } th, td { border: 0.4pt solid #000; padding: 1mm 2mm; text-align: left; }
pre { font: 8pt/1.3 "DejaVu Sans Mono", monospace; border: 0.4pt solid #000; padding: 2mm; break-inside: avoid;
      white-space: pre-wrap; }
code { font-family: "DejaVu Sans Mono", monospace; font-size: 0.9em; } pre code { font-size: 1em; }
@media print { nav { display: none; } }
.form { break-before: page; } .question { break-inside: avoid; margin: 4mm 0; }
.option { margin: 1mm 0 1mm 6mm; } .box { display: inline-block; width: 3.4mm; height: 3.4mm; border: 0.6pt solid #000;
      margin-right: 2mm; vertical-align: -0.5mm; }
.write { border-bottom: 0.4pt solid #000; height: 8mm; } .short { display: inline-block; width: 40mm; }
@media screen {
  body { font-size: 16px; max-width: 46rem; margin: 0 auto; padding: 1.25rem; overflow-wrap: break-word; }
  pre { font-size: 13px; background: #f4f4f2; } .form { margin-top: 3rem; border-top: 3px solid #000; }
}
"""


def printed(root: Path, name: str, experiments: Experiments, *, linked: bool = False) -> str:
    """Return the handout of exercise `name` with its form as one HTML page, nothing of which is fetched.

    If it is `linked`, its references lead to the other handouts in its folder, and to the pages in ../docs.
    """
    exercise = read_exercise(root, name, experiments)
    folders = exercises(root)
    text = (folders[name] / "README.md").read_text(encoding="utf-8")

    def leads_to(path: str, part: str) -> str:
        place = place_on_site(root, f"{folders[name].relative_to(root).as_posix()}/{path}") if linked else ""
        return f"../{place}{part}" if place else ""

    body = MarkdownIt("commonmark").enable("table").render(_for_paper(text, leads_to))
    back = '<nav><a href="../index.html">The lab</a></nav>' if linked else ""
    fields = "".join(_field(question) for question in exercise.questions)
    paper = "".join(_paper(question) for question in paper_questions(text))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(exercise.title)}</title>'
        f"<style>{STYLE}</style></head><body>{back}{body}"
        f'<section class="form"><h1>Form: {escape(exercise.title)}</h1>'
        '<p>Name <span class="write short"></span> Date <span class="write short"></span></p>'
        f"{fields}<h2>In your own words</h2>{paper}</section></body></html>\n"
    )


def place_on_site(root: Path, path: str) -> str:
    """Return where the site of the lab at `root` has a file as a page: in docs/ or handouts/; "" if nowhere."""
    folder, name = posixpath.split(posixpath.normpath(path))
    exercise = posixpath.basename(folder)
    if folder == "docs" and name.endswith((".md", ".tsv")):
        # A page and a table may share their name.
        place = f"docs/{name.removesuffix('.md')}.html"
    else:
        place = f"handouts/{exercise}.html" if name == "README.md" and exercise in exercises(root) else ""
    return place if (root / folder / name).is_file() else ""


def paper_questions(text: str) -> list[str]:
    asked = text.split("\n## Questions\n")[1].split("\n## ")[0]
    return [" ".join(question.split()) for question in re.findall(r"^\d+\. (.+(?:\n {2,}.+)*)", asked, re.MULTILINE)]


def _for_paper(text: str, leads_to: Callable[[str, str], str] = lambda _path, _part: "") -> str:
    """Return the text without comments; a link to a page has the page's name behind it, other links are their text.

    `leads_to` gives the address of a path and its part on the site; without one the link is its text.
    """

    def named(link: re.Match[str]) -> str:
        words, path, part = link[1], link[2], link[3] or ""
        page = posixpath.basename(path)
        shown = "" if page == "README.md" or not page.endswith(".md") else f" ({page})"
        address = leads_to(path, part)
        return (f"[{words}]({address})" if address else words) + shown

    plain = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\(([^)#]+)(#[^)]*)?\)", named, plain)


def _field(question: Question) -> str:
    when = "Before you run: " if question.predicts else ""
    options = "".join(
        f'<div class="option"><span class="box"></span>{escape(option)}: {escape(text)}</div>'
        for option, text in question.options.items()
    )
    blank = f'<span class="write short"></span> {escape(question.unit)}' if question.figure else options
    return f'<div class="question"><strong>{escape(when + question.asks)}</strong><br>{blank}</div>'


def _paper(question: str) -> str:
    lines = '<div class="write"></div>' * LINES_TO_WRITE
    return f'<div class="question">{MarkdownIt().renderInline(_for_paper(question))}{lines}</div>'

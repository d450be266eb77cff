"""Handouts to print: each as one HTML page, the form with boxes and lines to write on at its end."""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt

from looplab.exercises.exercise import exercises, read_exercise
from looplab.spec.experiment import Experiments

# A free-text answer: two sentences and a figure.
LINES_TO_WRITE = 4
TEMPLATE = "handout.html.j2"


def printed(root: Path, name: str, experiments: Experiments) -> str:
    """Return the handout of exercise `name` with its form as a page of the site.

    Its references lead to the other handouts in its folder, and to the pages in ../docs.
    """
    exercise = read_exercise(root, name, experiments)
    folder = exercises(root)[name]
    text = (folder / "README.md").read_text(encoding="utf-8")

    def leads_to(path: str, part: str) -> str:
        place = place_on_site(root, f"{folder.relative_to(root).as_posix()}/{path}")
        return f"../{place}{part}" if place else ""

    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    return environment.get_template(TEMPLATE).render(
        exercise=exercise,
        text=MarkdownIt("commonmark").enable("table").render(_for_paper(text, leads_to)),
        on_paper=[MarkdownIt().renderInline(_for_paper(question, leads_to)) for question in paper_questions(text)],
        lines=LINES_TO_WRITE,
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


def _for_paper(text: str, leads_to: Callable[[str, str], str]) -> str:
    """Return the text without comments, and with the page's name behind a link to a page: paper has no links.

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

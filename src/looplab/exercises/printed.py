"""Handouts to print: each as one HTML page, the form with boxes and lines to write on at its end."""

import posixpath
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt

from looplab.exercises.exercise import exercises, read_exercise
from looplab.exercises.forms import paper_questions
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
    text = re.sub(r"<!--.*?-->\n?", "", (folder / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    text = with_site_links(text, root, folder.relative_to(root).as_posix(), on_paper=True)
    asked = (re.sub(r"^\d+\. ", "", question) for question in paper_questions(text))
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    return environment.get_template(TEMPLATE).render(
        exercise=exercise,
        text=MarkdownIt("commonmark").enable("table").render(text),
        on_paper=[MarkdownIt().renderInline(question) for question in asked],
        lines=LINES_TO_WRITE,
    )


def with_site_links(text: str, root: Path, folder: str, *, on_paper: bool = False) -> str:
    """Return the Markdown of a page in `folder` of the lab at `root` with links that lead on within its site.

    A link to what the site does not hold is its text. Paper has no links: there each page's name is behind its link.
    """

    def linked(link: re.Match[str]) -> str:
        words, path, part = link[1], link[2], link[3] or ""
        if "://" in path or not path or path.startswith("pictures/"):
            return link[0]
        place, page = place_on_site(root, f"{folder}/{path}"), posixpath.basename(path)
        shown = f" ({page})" if on_paper and page.endswith(".md") and page != "README.md" else ""
        return (f"[{words}](../{place}{part})" if place else words) + shown

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#]*)(#[^)]*)?\)", linked, text)


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

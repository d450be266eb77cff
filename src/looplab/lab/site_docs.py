"""The documentation as pages: docs/*.md, its tables (docs/*.tsv) and pictures, with links that lead on."""

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from looplab.exercises.printed import place_on_site
from looplab.report.page import page

TEMPLATE = Path(__file__).with_name("document.html.j2")
SCROLLED = '<div class="scroll" tabindex="0"><table>\n', "</table></div>\n"


def write_docs(docs: Path, out: Path) -> None:
    """Write each page and each table of the folder `docs` as an HTML page to `out`."""
    shutil.copytree(docs / "pictures", out / "pictures")
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.push("anchors", _set_anchors)
    markdown.add_render_rule("table_open", lambda *_given: SCROLLED[0])
    markdown.add_render_rule("table_close", lambda *_given: SCROLLED[1])
    for source in docs.iterdir():
        text = source.read_text(encoding="utf-8") if source.suffix in (".md", ".tsv") else ""
        if text:
            text = _table(text, source.name) if source.suffix == ".tsv" else text
            body = markdown.render(_with_targets(text, docs))
            html = page(TEMPLATE, {"title": source.name, "body": body})
            (out / target(source.name, docs)).write_text(html, encoding="utf-8")


def target(link: str, docs: Path) -> str:
    """Return where a link of a page in `docs` leads on the site; nowhere is the empty string.

    A students' copy lacks pages, and has a note without headings in place of others.
    """
    path, _, part = link.partition("#")
    if "://" in path or not path or path.startswith("pictures/"):
        return link
    place = place_on_site(docs.parent, f"docs/{path}")
    if not place.startswith("docs/"):
        return place and f"../{place}"
    page_name = place.removeprefix("docs/")
    headings = re.findall(r"^#+ (.*)$", (docs / path).read_text(encoding="utf-8"), re.MULTILINE)
    return f"{page_name}#{part}" if part in map(_anchor, headings) else page_name


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _set_anchors(state: Any) -> None:
    """Give each heading its anchor."""
    for token, following in itertools.pairwise(state.tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor("".join(part.content for part in following.children)))


def _with_targets(text: str, docs: Path) -> str:
    """Return Markdown whose links lead on within the site; a link to what the site does not hold is its text."""

    def link(found: re.Match[str]) -> str:
        leads_to = target(found[2], docs)
        return f"[{found[1]}]({leads_to})" if leads_to else found[1]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", link, text)


def _table(text: str, name: str) -> str:
    """Return a table of tab-separated values as Markdown, as its cells are."""
    head, *rows = (line.replace("|", r"\|").split("\t") for line in text.splitlines())
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return "\n".join([f"# {name}", "", *lines])

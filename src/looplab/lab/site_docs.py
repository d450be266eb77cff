"""The documentation as pages: docs/*.md, its tables (docs/*.tsv) and pictures, with links that lead on."""

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from looplab.exercises.printed import place_on_site, with_site_links
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
            body = markdown.render(with_site_links(text, docs.parent, "docs"))
            html = page(TEMPLATE, {"title": source.name, "body": body})
            (out.parent / place_on_site(docs.parent, f"docs/{source.name}")).write_text(html, encoding="utf-8")


def _set_anchors(state: Any) -> None:
    """Give each heading the anchor that GitHub gives it."""
    for token, following in itertools.pairwise(state.tokens):
        if token.type == "heading_open":
            heading = "".join(part.content for part in following.children)
            token.attrSet("id", re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))


def _table(text: str, name: str) -> str:
    """Return a table of tab-separated values as Markdown, as its cells are."""
    head, *rows = (line.replace("|", r"\|").split("\t") for line in text.splitlines())
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return "\n".join([f"# {name}", "", *lines])

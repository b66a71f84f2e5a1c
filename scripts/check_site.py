"""Checks the built documentation site: links, names, and that it loads nothing from the network."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from scripts.reference_pages.public_names import ROOT, public_names

SITE = ROOT / "site/build"
LOADING = {"link": "href", "script": "src", "img": "src", "iframe": "src"}
"""The attribute with the URL that each element loads."""
RELATIONS = {"canonical", "next", "prev"}
"""Relations of `link` elements that do not load their URL."""


class Page(HTMLParser):
    """The loaded URLs, the links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store the references and the anchor of an element."""
        given = dict(attrs)
        if name := given.get("id"):
            self.anchors.add(name)
        target = given.get(LOADING.get(tag, "href"))
        if target is None:
            return
        if tag == "a":
            self.links.append(target)
        elif tag in LOADING and given.get("rel") not in RELATIONS:
            self.loads.append(target)


def faults(site: Path) -> Iterator[str]:
    """Yield one line for each fault of the site."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site)
        yield from (f"{name} loads {url} from a network" for url in page.loads if _is_foreign(url))
        local = [*page.loads, *page.links] if file.name != "404.html" else []  # its links start with a host
        for target in local:
            if not _is_foreign(target) and not _is_there(file, target, pages):
                yield f"{name} links to {target}, which does not exist"
    for module, names in public_names().items():
        page = pages.get(site / f"reference/{module}.html", Page(""))
        yield from (f"{module}.{each} is not in the reference" for each in names if not _has(page, each))


def _has(page: Page, name: str) -> bool:
    return any(anchor.rpartition(".")[2] == name for anchor in page.anchors)


def _is_foreign(target: str) -> bool:
    return re.match(r"[a-z]+:|//", target) is not None


def _is_there(file: Path, target: str, pages: dict[Path, Page]) -> bool:
    path, _, anchor = unquote(target).partition("#")
    found = (file.parent / path.partition("?")[0]).resolve() if path else file
    found = found / "index.html" if found.is_dir() else found
    if not anchor or found not in pages:
        return found.exists()
    return anchor in pages[found].anchors


if __name__ == "__main__":
    found = list(faults(SITE))
    print("\n".join(found) or "The site's links, names and files are complete.")
    sys.exit(bool(found))

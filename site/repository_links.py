"""A Markdown extension for the site: links to files outside of `docs/` lead to the repository."""

from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor


class RepositoryLinks(Extension):
    """Rewrites `../examples/x.py` to the file's page in the repository."""

    def __init__(self, **settings: Any) -> None:
        self.config = {"url": ["", "Begin of the URL of a file in the repository."]}
        super().__init__(**settings)

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Add the rewriting."""
        md.treeprocessors.register(_Rewriter(self.getConfig("url")), "repository_links", 0)


class _Rewriter(Treeprocessor):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            target = link.get("href", "")
            if target.startswith("../") and not target.partition("#")[0].endswith(".md"):
                link.set("href", self._url + target.removeprefix("../"))


def makeExtension(**settings: Any) -> RepositoryLinks:  # noqa: N802 - Markdown's name
    """Return the extension, for Markdown."""
    return RepositoryLinks(**settings)

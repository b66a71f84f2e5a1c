"""The generated reference: every command, option, table, key and public name is on a page, and found."""

import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from podium.cli.root import COMMANDS, app
from podium.config.sections import Sections
from scripts.reference_pages.command_line import command_line_page, command_paths
from scripts.reference_pages.configuration import configuration_page, tables
from scripts.reference_pages.public_names import module_page, public_names
from scripts.search_index import guides_first

ROOT = Path(__file__).parents[2]
SITE = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]


def pages_of(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_of(part)]  # type: ignore[attr-defined]


@pytest.mark.long
def test_every_command_and_option_is_on_the_page() -> None:
    page = command_line_page()
    assert set(COMMANDS) <= {path[0] for path in command_paths()}
    group = get_command(app)
    for path in command_paths():
        text = page.partition(f"\n## podium {' '.join(path)}\n")[2].partition("\n## ")[0]
        command = group
        for word in path:
            context = command.make_context("podium", ["--help"], resilient_parsing=True)
            command = command.resolve_command(context, [word])[1]  # type: ignore[attr-defined]
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            told = parameter.opts[-1] if is_option else parameter.metavar or parameter.name
            assert told.lower() in text.lower(), f"podium {' '.join(path)}: {told}"


def test_every_table_and_key_has_a_meaning() -> None:
    found = list(tables())
    names = {*Sections.model_fields, "server", "models"} - {"plans"}
    assert {table.name.strip("[").split(".")[0] for table in found} == names
    assert {"models.NAME", "models.NAME.efforts.NAME"} <= {table.name for table in found}
    assert "## `[plans]`\n\nThe files of saved plans" in configuration_page()
    assert [f"{table.name}.{key.name}" for table in found for key in table.keys if not key.meaning] == []
    assert "| `attempts` | whole number | `3` | Maximum calls of one step" in configuration_page()


@pytest.mark.long
@pytest.mark.parametrize("module", public_names())
def test_a_page_has_what_the_module_exports(module: str) -> None:
    names = public_names()[module]
    if find_spec(module.partition(".")[0]) is None:
        pytest.skip("it has an environment of its own")
    loaded = import_module(module)
    public = getattr(loaded, "__all__", names)
    assert sorted(names) == sorted(name for name in public if not name.startswith("__"))
    page = module_page(module, names)
    assert all(f"::: {module}.{name}\n" in page for name in names)


def documented_imports() -> set[tuple[str, str]]:
    """Return the package and the name of each import of ours in a page or an example."""
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    found = set()
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = re.findall(r"^\s*from (\w*podium\w*)\S* import (\([^)]+|[^(\n]+)", text, re.MULTILINE)
        for package, names in lines:
            found |= {(package, name) for name in re.findall(r"\w+", re.sub(r" as \w+|#.*", "", names))}
    return found


def test_every_name_that_the_pages_import_is_in_the_reference() -> None:
    known = {(module.partition(".")[0], name) for module, names in public_names().items() for name in names}
    imports = documented_imports()
    assert ("podium", "Conductor") in imports
    assert sorted(imports - known) == []


def test_the_navigation_has_every_page() -> None:
    """Each page once; the log and the decisions are not pages of the site.

    At most 26 pages are written by hand, with 45,000 words; the start page links each once.
    """
    listed = pages_of(SITE["nav"])
    excluded = SITE["plugins"]["exclude"]["glob"]
    written = {file.name for file in (ROOT / "docs").glob("*.md")} - set(excluded)
    made = {f"reference/{name}.md" for name in (*public_names(), "command-line", "podium-toml")}
    assert sorted(listed) == sorted(written | made)
    texts = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for page in written}
    assert len(written) <= 26
    assert sum(len(text.split()) for text in texts.values()) <= 45_000
    linked = re.findall(r"\]\((\w[\w-]*\.md)\)", texts["index.md"])
    assert sorted([*linked, "index.md"]) == sorted(written)


def test_every_package_is_searched_for_names() -> None:
    paths = SITE["plugins"]["mkdocstrings"]["handlers"]["python"]["paths"]
    assert sorted(ROOT / path for path in paths) == sorted(ROOT.glob("packages/*/src"))


def item(location: str, level: int, title: str, text: str = "text") -> dict[str, object]:
    return {"location": location, "level": level, "title": title, "text": text, "path": ["A", "B"]}


def test_members_are_found_at_their_class() -> None:
    page = "reference/podium.policy.html"
    guides = [
        item("policy.html#approval", 2, "Approval"),
        item("reference/command-line.html#podium", 3, "podium"),
    ]
    reference = [
        item(page, 1, "podium.policy"),
        item(f"{page}#podium.policy.Policy", 2, "podium.policy.Policy  <small>class</small>"),
        item(f"{page}#podium.policy.Policy.approve", 3, "approve  <small>attribute</small>"),
        item(f"{page}#podium.policy.Policy.ask", 3, "ask"),
    ]
    found = guides_first([*guides, *reference])
    assert found[:2] == guides
    assert [(each["title"], each["text"], each["path"]) for each in found[2:]] == [
        ("podium.policy", "", ["A"]),
        ("podium.policy.Policy  <small>class</small>", " approve ask", ["A"]),
    ]

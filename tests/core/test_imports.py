"""The direction of imports: data flows one way, and a module imports from its own stage or earlier ones."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import podium

ROOT = Path(podium.__file__).parent

STAGES: tuple[tuple[str, ...], ...] = (
    ("quick", "usage"),
    ("errors",),
    ("secrets", "boundary", "files", "limits", "messages", "opened", "timeout", "words"),
    ("ledger", "plan", "edits"),
    ("literal", "interpret", "labelled", "parse", "spelling"),
    ("outcome", "forecast", "explain", "result", "conclusion", "events"),
    ("cache", "journal", "policy"),
    ("workers",),
    ("retry", "recall", "prompt", "forecasting"),
    ("planners",),
    ("setting", "attempt", "turns", "hedging", "trying", "approval", "keeping", "place", "places", "execute"),
    ("carrying", "planning", "judging", "recursion"),
    ("telemetry", "logs", "stream", "sync", "home"),
    (
        "durable",
        "paid",
        "tool_turn",
        "recording",
        "job",
        "claiming",
        "running",
        "options",
        "replay",
        "conductor",
        "hosted",
    ),
    ("shadow",),
    ("config",),
    ("cli",),
    ("", "__main__"),
)
"""First to last; a package stands for all of its modules, the empty name for the face of `podium`."""

RANK = {name: rank for rank, stage in enumerate(STAGES) for name in stage}


def module_name(path: Path) -> str:
    """Return the dotted name below `podium` of a source file; a package's own is the package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] + [f"{node.module}.{a.name}" for a in node.names]
        found |= {name.removeprefix("podium").removeprefix(".") for name in names if "podium" in name}
    return found & set(SOURCES)


IMPORTS = {name: imported(path) - {name} for name, path in SOURCES.items()}


def test_every_module_has_a_stage() -> None:
    """A new module says where in the flow it stands."""
    assert {name.split(".")[0] for name in SOURCES} == set(RANK)


def test_the_table_for_contributors_has_this_order() -> None:
    """`AGENTS.md` says of every module what it owns, first to last."""
    rows = re.findall(
        r"^\| (`.*?) \|", (Path(__file__).parents[2] / "AGENTS.md").read_text("utf-8"), re.MULTILINE
    )
    told = [name for row in rows for name in re.findall(r"`(\w+)/?`", row)]
    assert told == [name for stage in STAGES for name in stage if name not in ("", "__main__")]


def test_nothing_imports_from_a_later_stage() -> None:
    """Stages know nothing of what comes after them."""
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if RANK[other.split(".")[0]] > RANK[name.split(".")[0]]
    ]
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    """Within a stage there is an order, too; the faces of packages aside."""
    faces = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    graph = {name: others - faces for name, others in IMPORTS.items() if name not in faces}
    assert list(TopologicalSorter(graph).static_order())


def test_no_pattern_has_a_possessive_group() -> None:
    """Python before 3.11.5 loses matches of `(…)*+`; `(?>(…)*)` is the same and works."""
    wrong = [name for name, path in SOURCES.items() if re.search(r"\)[*?+]\+", path.read_text("utf-8"))]
    assert wrong == []

"""The direction of imports: data flows one way, and a module imports from stages before it only."""

import ast
from pathlib import Path

import podium

ROOT = Path(podium.__file__).parent

ORDER = """
errors boundary messages limits plan
literal interpret labelled parse spelling
result explain events
workers.worker prompt workers.pool workers.function workers.scripted
workers.timeouts workers.providers workers.faults workers.proxies workers.transport workers.sse
workers.exchange workers.endpoint workers.usage workers.answers workers.chat_body workers.chat
workers.responses
""".split()
"""Stages, first to last; a package stands where its last module would."""


def module_name(path: Path) -> str:
    """Return the dotted name below `podium` of a source file; a package's own is the package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "podium":
            found.add(node.module.removeprefix("podium").removeprefix("."))
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("podium.") for a in node.names if a.name.startswith("podium.")}
    return found


SOURCES = {module_name(path): path for path in ROOT.rglob("*.py")}

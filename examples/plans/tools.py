"""An MCP server with the tools of two plans: the files of a migration, and the refunds of a shop.

Replace `check` with your compiler or tests, and `refund` with your shop. `ROOT` is the folder of the files.
"""

import os
from pathlib import Path

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import BaseModel

ROOT = Path(os.environ.get("ROOT", ".")).resolve()
READS = ToolAnnotations(readOnlyHint=True)
REPEATABLE = ToolAnnotations(idempotentHint=True)
server = FastMCP("tools")


class Files(BaseModel):
    """Files below the root."""

    files: list[str]


class Checked(BaseModel):
    """The result of a check."""

    green: bool
    log: str


def inside(path: str) -> Path:
    """Return a path below the root; raise `ValueError` for another."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ValueError(f"{path} is not below {ROOT}")
    return found


@server.tool(annotations=READS)
def list_files(pattern: str) -> Files:
    """List the files that a pattern such as src/**/*.py selects."""
    return Files(files=sorted(str(each.relative_to(ROOT)) for each in ROOT.glob(pattern) if each.is_file()))


@server.tool(annotations=READS)
def read_file(path: str) -> str:
    """Return the text of a file."""
    return inside(path).read_text(encoding="utf-8")


@server.tool(annotations=REPEATABLE)
def write_file(path: str, text: str) -> str:
    """Replace the text of a file."""
    inside(path).write_text(text, encoding="utf-8")
    return f"wrote {path}"


@server.tool(annotations=READS)
def check(path: str) -> Checked:
    """Compile a Python file, and say what is wrong with it."""
    try:
        compile(inside(path).read_text(encoding="utf-8"), path, "exec")
    except SyntaxError as error:
        return Checked(green=False, log=f"{path}:{error.lineno}: {error.msg}")
    return Checked(green=True, log="compiles")


@server.tool()
def refund(order: str, amount: float) -> str:
    """Refund an amount of an order."""
    with (ROOT / "refunds.txt").open("a", encoding="utf-8") as file:
        file.write(f"{order} {amount:.2f}\n")
    return f"refunded {amount:.2f} of order {order}"


if __name__ == "__main__":
    server.run("stdio")

"""Writes all reference pages."""

import shutil

from scripts.reference_pages.command_line import command_line_page
from scripts.reference_pages.configuration import configuration_page
from scripts.reference_pages.public_names import ROOT, module_page, public_names

FOLDER = ROOT / "docs/reference"

if __name__ == "__main__":
    pages = {module: module_page(module, names) for module, names in public_names().items()}
    pages |= {"command-line": command_line_page(), "podium-toml": configuration_page()}
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name, text in pages.items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")

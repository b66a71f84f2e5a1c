"""The errors of wrong configs: each has the line, the cause and the remedy."""

from pathlib import Path

import pytest

from podium.config import load_config
from podium.errors import ConfigError

GOOD = """\
[endpoints.local]
base_url = "http://localhost:8000/v1"
provider = "vllm"

[workers.solver]
endpoint = "local"
model = "qwen"

[planner]
worker = "solver"
"""
CASES = (Path(__file__).parent / "wrong_configs.txt").read_text().strip().split("\n\n")
"""Changes of `GOOD`: lines `-` are replaced by lines `+`, which by themselves come before `[planner]`; lines
`>` are the error."""


def _lines(case: str, mark: str) -> str:
    return "".join(line[1:] + "\n" for line in case.split("\n") if line[0] == mark)


def test_the_errors_of_wrong_configs(tmp_path: Path) -> None:
    """Word for word, when the file is read or when its parts are made."""
    path = tmp_path / "podium.toml"
    for case in CASES:
        old, new = _lines(case, "-"), _lines(case, "+")
        assert old in GOOD
        path.write_text(GOOD.replace(old, new, 1) if old else GOOD.replace("[planner]", f"{new}[planner]"))
        with pytest.raises(ConfigError) as caught:
            load_config(path).conductor()
        told = str(caught.value).replace(f"{path}:", "").replace(str(tmp_path), "FOLDER")
        assert f"{told}\n" == _lines(case, ">")

"""The shipped rehearsal of a training: each command of its comment, with fewer plans.

One process carries out all of them, because each import of the trainers takes seconds.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_recording import small_recording
from trl_base import QUIET

from podium import Conductor
from podium.config import load_config
from podium.errors import ConfigError
from podium_evals.recorded import write_recordings
from podium_train.recipe import shipped_recipes
from podium_train.trl import write_small_base

SMALLER = {"epochs = 2": "epochs = 1", "steps = 4": "steps = 2", "episodes = 8": "episodes = 2"}
CONFIG = """
endpoints.local.base_url = "http://127.0.0.1:9/v1"
workers.ada = { endpoint = "local", model = "ada" }
[planner]
type = "conductor"
path = "rehearsal-conductor"
base_url = "http://127.0.0.1:9/v1"
model = "conductor"
"""


@pytest.mark.timeout(300)
def test_the_rehearsal(tmp_path: Path) -> None:
    """The commands write a conductor that plans in a `podium.toml`, with a warning about missing rates."""
    text = shipped_recipes()["rehearsal"]
    commands = re.findall(r"^#   podium-train (.*)$", text, re.MULTILINE)
    assert [words.split()[0] for words in commands] == ["base", "examples", "sft", "grpo", "eval", "export"]
    for old, new in SMALLER.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "rehearsal.toml").write_text(text)
    write_recordings(small_recording(), tmp_path / "recording.jsonl.gz")
    few = [words + " --episodes 24" if "examples" in words else words for words in commands]
    # So few plans may not teach the form of plans: then `grpo` and `eval` end with 3.
    code = (
        "from podium_train.commands import app\n"
        f"codes = [app(words.split(), standalone_mode=False) or 0 for words in {few}]\n"
        "assert codes in ([0] * 6, [0, 0, 0, 0, 3, 0], [0, 0, 0, 3, 3, 0]), codes"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "step 2 of 2: reward" in done.stdout
    assert "validation: " in done.stdout
    (tmp_path / "podium.toml").write_text(CONFIG)
    conductor = load_config(tmp_path / "podium.toml").conductor(journaled=False)
    assert isinstance(conductor, Conductor)
    told = ("podium evals tune", "pools of 3, 4 workers")
    assert [part in warning for part, warning in zip(told, conductor.warnings, strict=True)] == [True, True]
    with pytest.raises(ConfigError, match="rehearsal-base exists"):
        write_small_base(tmp_path / "rehearsal-base")

"""Tests that need torch are collected where it is installed: `make test-trainers`.

Commands of tests find the environment of `examples/tiny_conductor`.
"""

import os
from importlib.util import find_spec
from pathlib import Path

collect_ignore = [] if find_spec("torch") else ["tiny", "trl"]
os.environ["PYTHONPATH"] = str(Path(__file__).parents[3] / "examples" / "tiny_conductor")

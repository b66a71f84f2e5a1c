"""Tests that need torch or vLLM are collected where it is installed: `make test-trainers`, `make test-vllm`.

Commands of tests find the environment of `examples/tiny_conductor`.
"""

import os
from importlib.util import find_spec
from pathlib import Path

collect_ignore = [] if find_spec("torch") else ["tiny", "trl"]
collect_ignore += [] if find_spec("vllm") else ["engine"]
os.environ["PYTHONPATH"] = str(Path(__file__).parents[3] / "examples" / "tiny_conductor")

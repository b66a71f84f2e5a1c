"""What `podium` shows to the world, and what it costs to look at it."""

import subprocess
import sys

import podium


def test_the_face_is_complete_sorted_and_small() -> None:
    """Every public name can be imported; there are at most twenty, in order."""
    assert list(podium.__all__) == sorted(podium.__all__)
    assert len(podium.__all__) <= 20
    for name in podium.__all__:
        assert getattr(podium, name).__name__ == name


def test_importing_is_silent_and_brings_in_no_framework() -> None:
    """No HTTP library, framework, thread, file or socket comes with the import."""
    code = """
import os, sys, threading
before = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()
import podium
foreign = {'httpx', 'httpx2', 'aiohttp', 'openai', 'langchain_core', 'langgraph', 'llama_index',
           'crewai', 'autogen_core', 'litellm', 'typer', 'rich', 'numpy', 'pydantic'}
print(sorted(foreign & set(sys.modules)), threading.active_count(),
      (set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()) - before)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "1", "set()"]
    assert done.stderr == ""

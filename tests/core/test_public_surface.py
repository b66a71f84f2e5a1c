"""What `podium` shows to the world, and what it costs to look at it."""

import subprocess
import sys

import podium


def test_the_face_is_complete_sorted_and_small() -> None:
    """`__all__` is what is really visible, in order, at most twenty names."""
    visible = {name for name in vars(podium) if not name.startswith("_")}
    modules = {name for name in visible if f"podium.{name}" in sys.modules}
    assert list(podium.__all__) == sorted(podium.__all__)
    assert visible - modules == set(podium.__all__) - modules
    assert len(podium.__all__) <= 20


def test_importing_is_silent_and_brings_in_no_framework() -> None:
    """No HTTP library, framework, thread, file or socket comes with the import."""
    code = """
import os, sys, threading
before = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()
import podium
foreign = {'httpx', 'aiohttp', 'openai', 'langchain_core', 'langgraph', 'llama_index', 'crewai',
           'autogen_core', 'litellm', 'typer', 'rich', 'numpy', 'bm25s', 'simpleeval', 'pydantic'}
print(sorted(foreign & set(sys.modules)), threading.active_count(),
      (set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()) - before)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "1", "set()"]
    assert done.stderr == ""

"""Tells clients of MCP and A2A that an answer is incomplete."""

from podium.types import Problem


def incomplete(problem: Problem) -> str:
    """Return a sentence about the problem of an answer."""
    return f"The answer is incomplete ({problem.code}: {problem.message})."

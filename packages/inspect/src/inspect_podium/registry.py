"""The objects that Inspect's entry point loads: the provider of models, the solver, tasks and scorers."""

from inspect_podium.model import podium
from inspect_podium.scorer import graded, recorded_score
from inspect_podium.solver import conductor
from inspect_podium.tasks import questions, recording

__all__ = ["conductor", "graded", "podium", "questions", "recorded_score", "recording"]

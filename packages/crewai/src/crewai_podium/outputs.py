"""The output format that a CrewAI task requires."""

from typing import Any

from crewai import Task
from pydantic import BaseModel, ValidationError

from podium.types import Constraint


def output_model(task: Task) -> type[BaseModel] | None:
    """Return the Pydantic model of a task's output; `None` for text."""
    return task.output_pydantic or task.output_json or task.response_model


def output_constraint(model: type[BaseModel] | None) -> Constraint | None:
    """Return the constraint for a Pydantic model; `None` for text."""
    return None if model is None else Constraint("json", model.model_json_schema())


def read_answer(answer: str, model: type[BaseModel]) -> BaseModel | str:
    """Return an answer as an instance of a model, or the reason why it is not one."""
    start, end = answer.find("{"), answer.rfind("}")
    reason = "it contains no JSON object"
    for text in (answer, answer[start : end + 1]):
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            reason = _first_reason(error)
    return f"the answer is not a valid {model.__name__}: {reason}"


def _first_reason(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])

"""The form in which a task wants its answer. It knows no run."""

from typing import Any

from crewai import Task
from pydantic import BaseModel, ValidationError

from podium.types import Constraint, Sampling


def form_of(task: Task) -> type[BaseModel] | None:
    """Return the model that a task's answer is to be one of; `None` for text."""
    return task.output_pydantic or task.output_json or task.response_model


def sampling_for(form: type[BaseModel] | None) -> Sampling:
    """Return how the worker of the last step is to write."""
    if form is None:
        return Sampling()
    return Sampling(constraint=Constraint("json", form.model_json_schema()))


def read_answer(answer: str, form: type[BaseModel]) -> BaseModel | str:
    """Return an answer as the model it is one of; where it is none, say why."""
    start, end = answer.find("{"), answer.rfind("}")
    wrong = "it holds no JSON object"
    for text in (answer, answer[start : end + 1]):
        try:
            return form.model_validate_json(text)
        except ValidationError as error:
            wrong = _first(error)
    return f"the answer is no {form.__name__}: {wrong}"


def _first(error: ValidationError) -> str:
    fault: Any = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, fault["loc"]))
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])

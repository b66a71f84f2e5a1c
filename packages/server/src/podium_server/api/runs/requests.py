"""The parameters of requests of the runs API."""

from typing import Annotated, Literal

from pydantic import Field

from podium_server.api.bodies import Body
from podium_server.api.runs.forms import State

Name = Annotated[str, Field(min_length=1, max_length=200)]
Time = Annotated[float, Field(ge=0, lt=1e12)]


class ListQuery(Body):
    """The parameters of `GET /v1/runs`."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: Annotated[Name | None, Field(description="`next` of the page before.")] = None
    model: Name | None = None
    status: Annotated[list[State], Field(default_factory=list, max_length=7)]
    label: Name | None = None
    key: Annotated[Name | None, Field(description="The id of an API key; needs the role `see`.")] = None
    since: Annotated[Time | None, Field(description="Runs that began then or later, in Unix time.")] = None
    until: Annotated[Time | None, Field(description="Runs that began then or earlier.")] = None


class EventsQuery(Body):
    """The parameters of `GET /v1/runs/{run_id}/events`."""

    after: Annotated[int, Field(ge=-1, lt=2**31)] = -1
    format: Literal["podium", "ag-ui"] = "podium"

"""`GET /v1/keys/self`: what the key of a request may do, and what it has spent."""

from typing import Literal

from pydantic import BaseModel, Field

from podium_server.http import BadRequest, Exchange
from podium_server.keys import BILLION, Access, Caller, Period, Role

PATH = "/v1/keys/self"


class Budget(BaseModel):
    """A budget of a key, in USD."""

    period: Literal["day", "month"]
    most: float
    spent: float
    reserved: float = Field(description="The reservations of running requests.")
    ends: float = Field(description="When the next day or month begins, in seconds of Unix time.")


class OwnKey(BaseModel):
    """The key of a request."""

    object: Literal["key"] = "key"
    id: str
    name: str
    role: Role
    models: list[str] | None = Field(description="The models that the key may call; null for all.")
    expires: float | None = Field(description="In seconds of Unix time; null if it has no end.")
    budgets: list[Budget] = Field(description="Empty if the key has no budget of a day or month.")


class OwnKeyApi:
    """Shows callers their keys."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show the key of the request or of the session."""
        key = caller.key
        if key is None:
            raise BadRequest("the server has no API keys", status=404, code="no_keys")
        rules = key.rules
        shown = OwnKey(
            id=key.key_id,
            name=key.name,
            role=rules.role,
            models=None if rules.models is None else list(rules.models),
            expires=key.expires,
            budgets=[_budget(period) for period in await self._access.budgets(caller)],
        )
        await exchange.json(shown.model_dump(), headers={"cache-control": "no-store"})


def _budget(period: Period) -> Budget:
    return Budget(
        period=period.name,
        most=period.most / BILLION,
        spent=period.spent / BILLION,
        reserved=period.reserved / BILLION,
        ends=period.end,
    )

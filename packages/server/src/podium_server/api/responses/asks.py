"""Reads a request for a response, and joins it with the conversation before it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from podium_server.api.responses.form import Response, id_of
from podium_server.api.responses.items import Item, messages_of, read_items
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.responses.store import ItemUnknown, PreviousUnknown, ResponseStore, Stored
from podium_server.http import BadRequest
from podium_server.keys import Caller
from podium_server.turn import Asked

_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request with its conversation."""

    request: ResponseRequest
    body: dict[str, Any]
    """The body of the request as JSON."""
    caller: Caller
    run_id: str
    items: Sequence[Item]
    """The input of the request, without the input of earlier responses."""
    asked: Asked

    @property
    def keeps(self) -> bool:
        """Whether the response is stored."""
        return self.asked.is_recorded

    def response(self, model: str) -> Response:
        """Return the response at its beginning.

        Args:
            model: the id of the model with its version.
        """
        now = int(time())
        return Response(request=self.request, run_id=self.run_id, model=model, created=now, keeps=self.keeps)

    def stored(self, response: Response) -> Stored:
        """Return the row of a response."""
        days = None if self.caller.key is None else self.caller.key.rules.retention_days
        return Stored(
            response_id=response.response_id,
            caller_id=self.caller.caller_id,
            previous_id=self.request.previous_response_id,
            run_id=self.run_id,
            created=response.created,
            request=self.body,
            items=self.items,
            response=response.to_json(),
            forget_at=None if days is None else response.created + days * _DAY,
        )


class Asks:
    """Reads requests.

    Args:
        store: has the earlier responses; `None` if the server stores none.
    """

    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store

    def keeps(self, caller: Caller, request: ResponseRequest) -> bool:
        """Return whether the response to a request is stored."""
        return request.store is not False and self._store is not None and caller.keeps_texts

    async def ask(
        self,
        caller: Caller,
        request: ResponseRequest,
        *,
        run_id: str,
        idempotency_key: str | None = None,
        fingerprint: str = "",
    ) -> Ask:
        """Return a request with its conversation.

        Raises:
            PreviousUnknown: the caller has stored no response with the id in `previous_response_id`.
            BadRequest: the request is invalid, or asks for a response in the background that is not stored.
            PodiumError: see `ResponseRequest.asked`.
        """
        keeps = self.keeps(caller, request)
        if request.background and not keeps:
            told = "a response in the background is stored: it needs `store`, a [journal], and an API key"
            raise BadRequest(f"{told} whose prompts and answers are kept", param="background")
        own = [await self._resolved(caller, item) for item in read_items(request.input, run_id)]
        before = await self.conversation(caller, request.previous_response_id)
        asked = request.asked(
            messages_of(request.instructions, [*before, *own]),
            run_id=run_id,
            keeps=keeps,
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
        )
        body = request.model_dump(mode="json", exclude_unset=True)
        return Ask(request=request, body=body, caller=caller, run_id=run_id, items=own, asked=asked)

    async def again(self, caller: Caller, stored: Stored) -> Ask:
        """Return the request of a stored response, to continue its run.

        Raises:
            PreviousUnknown: an earlier response of its conversation was deleted.
            PodiumError: see `ResponseRequest.asked`.
        """
        request = _request_of(stored)
        before = await self.conversation(caller, stored.previous_id)
        messages = messages_of(request.instructions, [*before, *stored.items])
        asked = request.asked(messages, run_id=stored.run_id, keeps=True, may_exist=True)
        return Ask(
            request=request,
            body=dict(stored.request),
            caller=caller,
            run_id=stored.run_id,
            items=stored.items,
            asked=asked,
        )

    async def conversation(self, caller: Caller, response_id: str | None) -> list[Item]:
        """Return the items of all responses up to a response; nothing for `None`.

        Raises:
            PreviousUnknown: see `ask`.
            BadRequest: a response has not ended.
        """
        if response_id is None:
            return []
        if self._store is None:
            raise PreviousUnknown("the server stores no responses, because its config has no [journal]")
        chain = await self._store.chain(caller.caller_id, response_id)
        for stored in chain:
            if not stored.has_ended:
                told = f"the previous response {stored.response_id!r} has not ended"
                raise BadRequest(told, param="previous_response_id")
        return [item for stored in chain for item in (*stored.items, *stored.response["output"])]

    async def _resolved(self, caller: Caller, item: Item) -> Item:
        """Return an item; for a reference, the output item of a stored response that it names.

        Raises:
            ItemUnknown: there is no such item.
        """
        if item["type"] != "item_reference":
            return item
        name = str(item.get("id"))
        run_id = name.partition("_")[2].rpartition("_")[0]
        if self._store is not None:
            stored = await self._store.found(caller.caller_id, id_of(run_id))
            known = () if stored is None else (*stored.response["output"], *stored.items)
            for each in known:
                if each["id"] == name:
                    return dict(each)
        raise ItemUnknown(name)


def response_of(stored: Stored) -> Response:
    """Return a stored response that has not ended, as it was at its beginning."""
    return Response(
        request=_request_of(stored),
        run_id=stored.run_id,
        model=stored.response["model"],
        created=stored.response["created_at"],
        keeps=True,
        status=stored.response["status"],
    )


def _request_of(stored: Stored) -> ResponseRequest:
    return ResponseRequest.model_validate_json(json.dumps(stored.request))

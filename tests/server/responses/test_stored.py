"""Stored responses belong to the API key that made them, and are deleted with its prompts and answers."""

from pathlib import Path
from typing import Any

import openai
import pytest
from server.keys.test_http import spent
from server.responses.test_responses import ASKED
from server.scene import until
from servers.podium_server import Served

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyStore
from podium_server.keys.ledger import Housekeeping, Ledger

HELD = "SELECT turn_id FROM podium_turns WHERE holder IS NOT NULL"
BOTH = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


@BOTH
def test_a_response_belongs_to_its_key(served: Served) -> None:
    """For another key, it does not exist."""
    own, other = served.client(served.key()), served.client(served.key())
    answer = own.responses.create(model="podium", input=ASKED)
    assert own.responses.retrieve(answer.id).output_text == "the answer"
    for call in (other.responses.retrieve, other.responses.delete, other.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(answer.id)
    with pytest.raises(openai.BadRequestError) as caught:
        other.responses.create(model="podium", input="More?", previous_response_id=answer.id)
    assert caught.value.code == "previous_response_not_found"
    reference: Any = [{"type": "item_reference", "id": answer.output[-1].id}]
    with pytest.raises(openai.BadRequestError) as caught:
        other.responses.create(model="podium", input=reference)
    assert caught.value.code == "item_not_found"


def test_a_key_that_keeps_nothing(served: Served, tmp_path: Path) -> None:
    """Its responses are not stored, and say so."""
    client = served.client(served.key(retention_days=0))
    answer = client.responses.create(model="podium", input="What is xyzzy?")
    assert answer.model_extra is not None
    assert answer.model_extra["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)
    assert not any(b"xyzzy" in path.read_bytes() for path in tmp_path.glob("runs.db*"))


def test_store_false_is_charged(served: Served, url: str) -> None:
    """A run that is not recorded costs the same."""
    client = served.client(served.key())
    client.responses.create(model="podium", input=ASKED)
    once = spent(url, 1e-9)
    assert once > 0
    client.responses.create(model="podium", input=ASKED, store=False)
    assert spent(url, 2 * once) == pytest.approx(2 * once)
    assert len(run_sync(lambda: SqlJournal(url).runs())) == 1


@BOTH
def test_a_response_is_deleted_at_its_time(served: Served, url: str) -> None:
    """The housekeeping of the keys deletes its run, and with it the response."""
    client = served.client(served.key(retention_days=1))
    answer = client.responses.create(model="podium", input=ASKED)
    assert client.responses.retrieve(answer.id).id == answer.id
    keys = KeyStore(url)
    later = "UPDATE podium_turns SET forget_at = forget_at - 86401"
    assert until(lambda: not run_sync(lambda: keys.transaction(lambda each: each.fetch(HELD))))
    run_sync(lambda: keys.transaction(lambda each: each.execute(later)))
    assert run_sync(Housekeeping(keys, Ledger(keys), SqlJournal(url)).forget_expired) == 1
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)

"""Stored responses belong to the API key that made them, and are deleted with its prompts and answers."""

from pathlib import Path
from typing import Any

import openai
import pytest
from server.keys.test_http import budget
from server.responses.test_responses import ASKED
from server.scene import Serve, until
from servers.podium_server import Served

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyStore
from podium_server.keys.ledger import Housekeeping, Ledger

HELD = "SELECT turn_id FROM podium_turns WHERE holder IS NOT NULL"


def test_a_response_belongs_to_its_key(keyed: Served) -> None:
    """For another key, it does not exist."""
    own, other = keyed.client(keyed.key()), keyed.client(keyed.key())
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


def test_responses_that_are_not_kept(serve: Serve, tmp_path: Path) -> None:
    """Of a key that keeps nothing, they say so; what is not recorded costs the same; others end in time."""
    served = serve(keys=True)
    client = served.client(served.key(retention_days=0))
    answer = client.responses.create(model="podium", input="What is xyzzy?")
    assert answer.model_extra is not None
    assert answer.model_extra["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)
    assert not any(b"xyzzy" in path.read_bytes() for path in tmp_path.glob("runs.db*"))
    key = served.key(day_cost=1.0, retention_days=1)
    client = served.client(key)
    kept = client.responses.create(model="podium", input=ASKED)
    assert until(lambda: budget(served, key) > 0)
    once = budget(served, key)
    client.responses.create(model="podium", input=ASKED, store=False)
    assert until(lambda: budget(served, key) > once)
    assert budget(served, key) == pytest.approx(2 * once)
    assert client.responses.retrieve(kept.id).id == kept.id
    assert served.app.journal is not None
    url = served.app.journal.url
    assert len(run_sync(lambda: SqlJournal(url).runs())) == 1
    keys = KeyStore(url)
    later = "UPDATE podium_turns SET forget_at = forget_at - 86401"
    assert until(lambda: not run_sync(lambda: keys.transaction(lambda each: each.fetch(HELD))))
    run_sync(lambda: keys.transaction(lambda each: each.execute(later)))
    assert run_sync(Housekeeping(keys, Ledger(keys), SqlJournal(url)).forget_expired) >= 1
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(kept.id)

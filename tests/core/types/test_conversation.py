"""Which message of a conversation is its question, however the conversation ends."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from podium import Message
from podium.errors import QueryError
from podium.types.messages import read_conversation

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RULES, ASK, SAID = Message("system", "Be brief."), Message("user", "Who?"), Message("assistant", "Ann.")
MEMORY = Message("system", "Ann left.")
CALLED, FOUND = Message("assistant", "", (CALL,)), Message("tool", "", (), "1")


@pytest.mark.parametrize(
    ("messages", "query", "turn"),
    [
        ([RULES, ASK], (RULES, ASK), ()),
        ([RULES, ASK, MEMORY], (RULES, MEMORY, ASK), ()),
        ([ASK, SAID, MEMORY], (ASK, SAID, MEMORY, ASK), ()),
        ([RULES], (RULES, Message("user", "Be brief.")), ()),
        ([ASK, MEMORY, CALLED, FOUND], (MEMORY, ASK), (CALLED, FOUND)),
        ([ASK, CALLED, FOUND, MEMORY], (ASK,), (CALLED, FOUND, MEMORY)),
        ([ASK, CALLED, FOUND, SAID], (ASK, CALLED, FOUND, SAID, ASK), ()),
        ([RULES, CALLED, FOUND], (RULES, Message("user", "Be brief.")), (CALLED, FOUND)),
    ],
)
def test_the_question_is_the_users_last_message(messages: Any, query: Any, turn: Any) -> None:
    assert read_conversation(messages) == (query, turn)


@given(st.lists(st.sampled_from([RULES, ASK, SAID, MEMORY, CALLED, FOUND]), min_size=1))
def test_a_conversation_that_was_read_reads_the_same(messages: list[Message]) -> None:
    """Nothing is left out, whatever the order; reading twice changes nothing."""
    try:
        query, turn = read_conversation(messages)
    except QueryError:
        return
    assert query[-1].role == "user"
    assert all(message in (*query, *turn) for message in messages)
    assert read_conversation((*query, *turn)) == (query, turn)

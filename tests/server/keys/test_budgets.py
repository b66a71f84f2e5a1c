"""What a key is charged for runs whose costs differ, or whose ends are unknown."""

import openai
import pytest
from server.keys.test_http import create
from server.scene import COST, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served


def test_a_run_that_costs_more_than_others_raises_its_reservation(
    keyed: Served, upstream: ChatServer
) -> None:
    """It is stopped where the budget ends, and not at what such runs usually cost."""
    assert create(keyed, keyed.key()).status_code == 200
    upstream.reply = lambda call: dear(call, 10)
    assert create(keyed, keyed.key(day_cost=100 * COST)).status_code == 200
    upstream.reply = lambda call: dear(call, 2_000)
    with pytest.raises(openai.RateLimitError, match=r"the budget of this day, \$0.27, ") as caught:
        create(keyed, keyed.key(day_cost=0.27))
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-podium-run-id"]


def dear(call: Call, times: int) -> Reply:
    """Reply as the team, where the first worker costs more."""
    if call.body["model"] != "one":
        return team(call)
    usage = {"prompt_tokens": 211 * times, "completion_tokens": 7, "total_tokens": 211 * times + 7}
    return says(call, "facts", usage=usage)

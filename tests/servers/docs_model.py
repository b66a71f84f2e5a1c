"""The model server of the documentation's examples.

As a module with `tests` on the path, it serves in its own process. It prints its URL, and exits at the end of
its input.
"""

import json
import sys

from servers.chat_server import Call, ChatServer, Reply, says, whole


def answer(call: Call) -> Reply:
    """Return the list of models, a plan of one step if the request is for a plan, or an answer."""
    if call.method == "GET":
        return whole({"object": "list", "data": [{"id": "model-of-a-loopback-server"}]})
    conducts = "You are the conductor" in json.dumps(call.body.get("messages", ""))
    return says(call, '{"worker": 0, "subtask": "Answer it.", "access": []}\n' if conducts else "Forty-two.")


if __name__ == "__main__":
    with ChatServer(answer).in_thread() as server:
        print(server.url, flush=True)  # noqa: T201
        sys.stdin.read()

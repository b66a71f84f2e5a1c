"""The model server of the documentation's examples.

Run as a module with `tests` on the path, it serves from its own process: it prints its URL,
and ends with its input.
"""

import json
import sys

from servers.chat_server import Call, ChatServer, Reply, says


def answer(call: Call) -> Reply:
    """Plan one step when asked to conduct; else answer."""
    conducts = "You are the conductor" in json.dumps(call.body.get("messages", ""))
    return says(call, '{"worker": 0, "subtask": "Answer it.", "access": []}\n' if conducts else "Forty-two.")


if __name__ == "__main__":
    with ChatServer(answer).in_thread() as server:
        print(server.url, flush=True)  # noqa: T201
        sys.stdin.read()

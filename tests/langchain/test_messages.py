"""Messages, calls and usage of LangChain's and of Podium's, each read as the other."""

import pytest
from langchain_core.messages import HumanMessage

from langchain_podium import ChatPodium, ConductorRunnable, create_conductor_agent
from langchain_podium.messages import (
    from_langchain,
)
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.planners import FixedPlanner
from podium.types import Message
from podium.workers import Card

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_pictures_of_every_spelling_become_one() -> None:
    own = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    theirs = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    for block in (own, theirs):
        assert from_langchain([HumanMessage([block])]) == (Message("user", (IMAGE,)),)


@pytest.mark.parametrize("face", ["runnable", "chat model", "graph"])
def test_images_go_to_workers_that_can_see_them(face: str) -> None:
    eyes = ScriptedWorker(Card(name="eyes", parts=frozenset({"image_url"})), "A cat.")
    blind = ScriptedWorker("blind", "A question.")
    conductor = Conductor(FixedPlanner(Plan((Step(0, "look"), Step(1, "read", (0,))))), [eyes, blind])
    asked = [HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE])]
    if face == "graph":
        create_conductor_agent(conductor).invoke({"messages": asked})
    else:
        made = ConductorRunnable(conductor) if face == "runnable" else ChatPodium(conductor=conductor)
        made.invoke(asked)
    seen = ["AAAA" in str(worker.requests[0].messages[-1].content) for worker in (eyes, blind)]
    assert seen == [True, False]

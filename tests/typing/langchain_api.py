"""Typed uses of the faces for LangChain: checked by mypy, never run."""

from typing import assert_type

from langchain_core.messages import AIMessage

from langchain_podium import ChatPodium, ConductorRunnable
from podium import Conductor, Result


async def use(conductor: Conductor) -> None:
    """Use everything the way people do."""
    asks = ConductorRunnable(conductor)
    assert_type(asks.invoke("why?"), str)
    assert_type(await asks.ainvoke({"question": "why?"}), str)
    assert_type(asks.batch(["why?"]), list[str])
    async for piece in asks.astream("why?"):
        assert_type(piece, str)
    whole = ConductorRunnable(conductor, output="result", partial="raise")
    assert_type(whole.invoke("why?"), Result)
    assert_type(await ChatPodium(conductor=conductor).ainvoke([("user", "why?")]), AIMessage)

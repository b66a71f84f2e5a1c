"""Whether two Runnables share an async HTTP client, whose connections belong to one event loop.

A request fails on a connection that another loop opened. LangChain's models of one server
share a client unless each is given its own.
"""

import gc
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from langchain_core.runnables import Runnable

from podium.workers import Endpoint

_MOST = 100_000
"""Most objects that are searched; a larger graph of objects is searched in part."""
_LEAVES = (
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    type,
    ModuleType,
    BuiltinFunctionType,
    CodeType,
    FrameType,
)


def shares_client(one: Any, other: Any) -> bool:
    """Say whether an async client of httpx or httpx2 can be reached from both objects."""
    found = [{id(each) for each in _reached(root) if _is_client(each)} for root in (one, other)]
    return not found[0].isdisjoint(found[1])


def _is_client(value: Any) -> bool:
    """Compare by name, so that neither library has to be installed."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    return not kinds.isdisjoint({("httpx", "AsyncClient"), ("httpx2", "AsyncClient")})


def _reached(root: Any) -> Iterator[Any]:
    """Yield an object and all objects it refers to; of a function, the Runnables it uses from outside."""
    left, seen = [root], {id(root)}
    while left and len(seen) < _MOST:
        each = left.pop()
        yield each
        for held in _held(each):
            if id(held) not in seen and not isinstance(held, _LEAVES):
                seen.add(id(held))
                left.append(held)


def _held(value: Any) -> Iterator[Any]:
    if isinstance(value, Endpoint):  # Podium's own has connections for each loop
        return
    if isinstance(value, FunctionType):
        yield from value.__closure__ or ()
        names = (value.__globals__.get(name) for name in value.__code__.co_names)
        yield from (each for each in names if isinstance(each, Runnable | partial))
    else:
        yield from gc.get_referents(value)

"""Copy the drawn requests of a batch for a candidate."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list

from langchain_podium.shadow.request import ShadowSettings, WatchedRequest

Configs = RunnableConfig | Sequence[RunnableConfig] | None


class WatchedBatch:
    """The drawn requests of one batch: a context manager around the primary's call.

    The time of a single request is unknown.
    """

    def __init__(
        self, settings: ShadowSettings, inputs: Sequence[Any], config: Configs, kwargs: Mapping[str, Any]
    ) -> None:
        self.config: Any = config
        self._watches: dict[int, WatchedRequest] = {}
        each = [config] * len(inputs) if config is None or isinstance(config, dict) else config
        for index, (asked, own) in enumerate(zip(inputs, each, strict=False)):
            run_id = None if index and each is not config else (own or {}).get("run_id")
            if settings.runner.draws(None if run_id is None else str(run_id)):
                self._watch(index, WatchedRequest(settings, own, kwargs, timed=False), asked, len(inputs))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for watch in self._watches.values():  # the error does not say which inputs have no answer
            watch.leave()

    def took(self, outputs: list[Any]) -> list[Any]:
        """Record all answers."""
        for index, output in enumerate(outputs):
            self.end(index, output)
        return outputs

    def end(self, index: int, output: Any) -> None:
        """Record one answer."""
        watch = self._watches.pop(index, None)
        if watch is None:
            return
        if isinstance(output, BaseException):
            watch.end(output)
        else:
            watch.took(output, 0.0)
            watch.end()

    def _watch(self, index: int, watch: WatchedRequest, asked: Any, length: int) -> None:
        if not watch.copies(asked):
            return
        if not self._watches:
            self.config = get_config_list(self.config, length)
        self.config[index] = watch.heard(self.config[index])
        self._watches[index] = watch

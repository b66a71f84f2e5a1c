"""`GET /healthz` and `GET /readyz`, which need no API key."""

from podium.errors import JournalError
from podium.journal import Journal
from podium_server.http import Exchange
from podium_server.keys import Caller


class Health:
    """Whether the process lives, and whether it should get requests.

    Args:
        journal: records the runs; `None` if they are not recorded.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal

    async def live(self, exchange: Exchange, _: Caller) -> None:
        """Answer that the process lives."""
        await exchange.json({"status": "ok"})

    async def ready(self, exchange: Exchange, _: Caller) -> None:
        """Answer with 200 if requests can be answered, or 503 and the reason."""
        reason = await self._reason()
        body = {"status": "ok"} if reason is None else {"status": "unavailable", "reason": reason}
        status = 200 if reason is None else 503
        await exchange.json(body, status=status)

    async def _reason(self) -> str | None:
        if self._journal is not None:
            try:
                await self._journal.runs(limit=1)
            except JournalError:
                return "the journal cannot be used"
        return None

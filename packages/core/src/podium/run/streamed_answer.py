"""The text of an answer that is passed on piece by piece while attempts may fail."""

from podium.errors import RunFailed
from podium.types.events import AnswerDelta
from podium.types.result import Result


class StreamedAnswer:
    """The text of an answer that was sent on piece by piece.

    A step that is tried again writes its text again. Nothing of that is sent until it is longer
    than the text before it, and nothing at all if it differs.
    """

    def __init__(self) -> None:
        self.text = ""
        """All that was sent."""
        self._again: str | None = None
        """What the current attempt has written; `None` where its text is what was sent."""
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def add(self, event: AnswerDelta) -> str:
        """Return the text of a piece that is to be sent; empty where there is none."""
        attempt = (event.round, event.step, event.attempt)
        if self._attempt not in (None, attempt):
            self._again = ""
        self._attempt = attempt
        if self._again is None:
            self.text += event.text
            return event.text
        self._again += event.text
        if not self._again.startswith(self.text):
            return ""
        new, self.text, self._again = self._again[len(self.text) :], self._again, None
        return new

    def rest(self, result: Result) -> str:
        """Return the text of the answer that was not sent yet.

        Raises:
            RunFailed: the answer differs from what was sent.
        """
        if not result.answer.startswith(self.text):
            told = "the answer is another than what was streamed of it: see the result"
            error = RunFailed(f"run {result.run_id}: {told}")
            error.result = result
            raise error
        return result.answer[len(self.text) :]

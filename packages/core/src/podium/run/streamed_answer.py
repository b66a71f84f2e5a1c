"""The text of an answer that is streamed while calls may fail and be retried."""

from podium.errors import RunFailed
from podium.types.events import AnswerDelta
from podium.types.result import Result


class StreamedAnswer:
    """The text of an answer that is streamed in pieces.

    A retried step writes its text again, from the beginning. If the new text begins with the text that was
    already streamed, the rest of it is streamed. If the new text differs, nothing more is streamed.
    """

    def __init__(self) -> None:
        self.text = ""
        """The text that was streamed."""
        self._again: str | None = None
        """The text of the current attempt, while it repeats text that was already streamed; otherwise `None`.
        """
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def add(self, event: AnswerDelta) -> str:
        """Return the text to stream for an event; empty if there is none."""
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
        """Return the text of the answer that was not streamed yet.

        Raises:
            RunFailed: the answer differs from the streamed text.
        """
        if not result.answer.startswith(self.text):
            told = "the answer differs from the streamed text: see the error's result"
            error = RunFailed(f"run {result.run_id}: {told}")
            error.result, error.actions = result, result.actions
            raise error
        return result.answer[len(self.text) :]

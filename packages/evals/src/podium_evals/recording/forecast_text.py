"""Words a forecast for people, and gives another one when the first answers were measured."""

from collections.abc import Callable, Sequence

from podium.cli.screen import counted, duration, money
from podium_evals.recording.forecast import Forecast
from podium_evals.recording.question_rows import QuestionRow
from podium_evals.recording.recorder import Recorder

FIRST = 10
"""Number of answers of each worker after which the rest is forecast again."""


def forecast_lines(found: Forecast) -> list[str]:
    """Return lines about the missing answers: the most that they can cost, and the expected amounts."""
    if not found.answers:
        return ["all answers are recorded"]
    most = "unknown, because a price is unknown" if found.most_cost is None else money(found.most_cost)
    told = f"{counted(found.answers, 'answer')} to ask for. Maximum cost, without repeated calls: {most}"
    if found.seconds is None:
        return [told, "Expected cost and duration: unknown before each worker has answered"]
    since = f"from {counted(found.measured, 'answer')} of each worker or more"
    cost = "unknown" if found.cost is None else found.cost.told(money)
    return [told, f"Expected cost: {cost}; expected duration: {found.seconds.told(duration)}; {since}"]


class Forecaster:
    """Gives a forecast before the first call, and again when each worker has answered a few times.

    Args:
        recorder: the recorder.
        rows: the questions.
        workers: number of workers.
        note: is given each line.
    """

    def __init__(
        self, recorder: Recorder, rows: Sequence[QuestionRow], workers: int, note: Callable[[str], None]
    ) -> None:
        self._recorder, self._rows, self._first, self._note = recorder, rows, FIRST * workers, note
        self._answers = 0

    def tell(self) -> None:
        """Give the forecast."""
        begin = f"after {counted(self._answers, 'answer')}: " if self._answers else ""
        for line in forecast_lines(self._recorder.forecast(self._rows)):
            self._note(f"podium: {begin}{line}")

    def hear(self) -> None:
        """Count an answer."""
        self._answers += 1
        if self._answers == self._first:
            self.tell()

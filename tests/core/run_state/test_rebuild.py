"""A run is read from its record, however far the record goes."""

import pytest
from core.actors import problem_of
from core.run_state.test_resume import conductor, recorded, team

from podium.journal import MemoryJournal
from podium.run_state.state import fold
from podium.types import RunEnded, StepEnded

pytestmark = pytest.mark.anyio


async def test_a_record_without_its_end_tells_how_far_the_run_came() -> None:
    journal = MemoryJournal()
    whole = await conductor(team(), journal).run("What?", run_id="x")
    events = await recorded(journal, "x")
    for length in range(1, len(events)):
        before = events[:length]
        assert not isinstance(before[-1], RunEnded)
        ended = {event.step for event in before if isinstance(event, StepEnded)}
        result = fold(before).result()
        assert problem_of(result).code == "unfinished"
        assert result.status == ("partial" if result.answer else "failed")
        assert (result.answer == whole.answer) == (3 in ended)
        for outcome, worker in zip(result.outcomes, result.workers, strict=False):
            assert outcome.worker == worker
            assert outcome.status == ("ok" if outcome.step in ended else "cancelled")
            assert outcome.problem is None or outcome.problem.code == "unfinished"
    assert fold(events).result() == whole

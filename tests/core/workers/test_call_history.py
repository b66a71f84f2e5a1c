"""What calls took lately."""

from podium.workers import Pool, ScriptedWorker
from podium.workers.pool import KEPT, CallRecord


def test_a_pool_remembers_what_calls_took() -> None:
    """For each worker by itself; the oldest of many are forgotten."""
    pool = Pool([ScriptedWorker("a", "A"), ScriptedWorker("b", "B")])
    history = pool.states[1].history
    for number in range(KEPT + 100):
        history.add(CallRecord(float(number), ok=True))
    assert (len(history.calls), history.calls[0].seconds, pool.states[0].history.calls) == (KEPT, 100.0, ())


def test_lengths_of_answers() -> None:
    """A quantile of them; calls that failed have no answer."""
    history = Pool([ScriptedWorker("a", "A")]).states[0].history
    assert history.output_tokens(0.5) is None
    for length in (10, 40, 20, 30):
        history.add(CallRecord(1.0, ok=True, output_tokens=length))
        history.add(CallRecord(1.0, ok=False, output_tokens=1000))
    assert [history.output_tokens(quantile) for quantile in (0.0, 0.5, 1.0)] == [10, 30, 40]

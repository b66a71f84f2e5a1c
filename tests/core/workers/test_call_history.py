"""What calls took lately."""

from podium.workers import Pool, ScriptedWorker
from podium.workers.call_history import KEPT, CallRecord


def test_a_pool_remembers_what_calls_took() -> None:
    """For each worker by itself; the oldest of many are forgotten."""
    pool = Pool([ScriptedWorker("a", "A"), ScriptedWorker("b", "B")])
    history = pool.history(1)
    assert history.seconds(0.5) is None
    for number in range(KEPT + 100):
        history.add(CallRecord(float(number), ok=number % 2 == 0))
    assert (len(history), len(pool.history(0)), history.calls[0].seconds) == (KEPT, 0, 100.0)
    assert (history.seconds(0.0), history.seconds(1.0)) == (100.0, 354.0)
    assert history.seconds(0.5) == 228.0
    assert history.seconds(0.5, least=KEPT // 2) is not None
    assert history.seconds(0.5, least=KEPT // 2 + 1) is None

"""Random plans of plain steps."""

from collections.abc import Sequence

from hypothesis import strategies as st

from podium import Plan, Step


@st.composite
def plans(
    draw: st.DrawFn, workers: int = 1, most: int = 7, *, words: Sequence[str] = (), enough: bool = False
) -> Plan:
    """Draw a plan whose subtasks have the number of their step, or are one of these words."""
    steps: list[Step] = []
    for index in range(draw(st.integers(1, most))):
        access = tuple(draw(st.sets(st.integers(0, index - 1), max_size=3))) if index else ()
        least = draw(st.none() | st.integers(1, len(access))) if enough and access else None
        subtask = draw(st.sampled_from([f"part {index}", *words]))
        steps.append(Step(draw(st.integers(0, workers - 1)), subtask, access, least))
    return Plan(tuple(steps))

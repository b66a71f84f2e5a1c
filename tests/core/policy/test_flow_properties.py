"""What the proof says of a plan is what a walk over all its paths says."""

from collections.abc import Iterator

from hypothesis import given, strategies as st

from podium.errors import PlanForbidden
from podium.policy import Policy, Rule
from podium.policy.rules import labels_of
from podium.types import Plan, Step
from podium.workers import Card

LABELS = ("red", "green", "blue")
NAMES = ("w0", "w1", "w2", "w3")


@st.composite
def pools(draw: st.DrawFn) -> tuple[Card, ...]:
    """Draw four workers with labels."""
    return tuple(Card(name=name, labels=draw(st.frozensets(st.sampled_from(LABELS)))) for name in NAMES)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan of up to eight steps."""
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 8))):
        seen = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        steps.append(Step(draw(st.integers(0, len(NAMES) - 1)), f"subtask {index}", tuple(seen)))
    return Plan(tuple(steps))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Draw a rule about a label or a name."""
    words = st.frozensets(st.sampled_from(LABELS + NAMES), min_size=1, max_size=2)
    label = draw(st.sampled_from(LABELS + NAMES))
    return Rule(label, never=draw(words)) if draw(st.booleans()) else Rule(label, only=draw(words))


def chains(plan: Plan, step: int) -> Iterator[tuple[int, ...]]:
    """Yield every chain of steps that ends in `step`, each on the access list of the next."""
    yield (step,)
    for seen in plan.steps[step].access:
        for chain in chains(plan, seen):
            yield (*chain, step)


def breached(plan: Plan, cards: tuple[Card, ...], labels: frozenset[str], rule: Rule) -> set[int]:
    """Return the steps at which some chain breaks the rule, chain by chain."""
    found = set()
    for step in range(len(plan.steps)):
        worker = cards[plan.steps[step].worker]
        marks = {worker.name, *worker.labels}
        bad = bool(marks & set(rule.never)) if rule.never else not marks & set(rule.only)
        for first, *others in chains(plan, step):
            source = cards[plan.steps[first].worker]
            carries = others and rule.label in {source.name, *source.labels}
            if bad and (carries or rule.label in labels):
                found.add(step)
    return found


@given(pools(), plans(), st.frozensets(st.sampled_from(LABELS), max_size=1), st.lists(rules(), max_size=3))
def test_the_proof_agrees_with_a_walk_over_all_chains(
    cards: tuple[Card, ...], plan: Plan, labels: frozenset[str], found: list[Rule]
) -> None:
    """A plan is refused exactly where some chain of steps breaks a rule, and the first such step is named."""
    wrong = set[int]().union(*(breached(plan, cards, labels, rule) for rule in found))
    policy = Policy(rules=found)
    first = None
    try:
        policy.verify(plan, cards, labels)
    except PlanForbidden as error:
        first = error.step
    assert first == min(wrong, default=None)
    flows = labels_of(plan, cards, labels)
    refused = {
        index
        for index, step in enumerate(plan.steps)
        if not policy.admits(cards[step.worker], flows[index].shown)
    }
    assert refused == wrong


@given(pools(), plans(), st.frozensets(st.sampled_from(LABELS), max_size=1), st.lists(rules(), max_size=3))
def test_what_was_repaired_is_allowed_and_otherwise_the_same(
    cards: tuple[Card, ...], plan: Plan, labels: frozenset[str], found: list[Rule]
) -> None:
    """A repair changes workers alone, says so, and needs no second one."""
    policy = Policy(rules=found, denied=("w3",))
    try:
        repaired = policy.check(plan, cards, labels)
    except PlanForbidden:
        return
    policy.verify(repaired, cards, labels)
    assert policy.check(repaired, cards, labels) is repaired
    assert [(s.subtask, s.access) for s in repaired.steps] == [(s.subtask, s.access) for s in plan.steps]
    changed = [
        i for i, (one, other) in enumerate(zip(plan.steps, repaired.steps, strict=True)) if one != other
    ]
    assert all(f"step {index} " in repaired.why for index in changed)
    assert (repaired is plan) == (not changed)


@given(pools(), plans(), st.frozensets(st.sampled_from(LABELS)))
def test_labels_are_never_lost_on_the_way(
    cards: tuple[Card, ...], plan: Plan, labels: frozenset[str]
) -> None:
    """What a step puts out carries its worker, the query, and all that came in."""
    flows = labels_of(plan, cards, labels)
    for index, step in enumerate(plan.steps):
        ways = {cards[plan.steps[chain[0]].worker].name for chain in chains(plan, index)}
        assert {name for name in flows[index].output if name in NAMES} == ways
        assert flows[index].output == flows[index].shown | cards[step.worker].labels | {
            cards[step.worker].name
        }
        assert labels <= flows[index].shown

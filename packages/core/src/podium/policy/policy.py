"""What plans may do. It looks at plans and at who is shown what; it carries nothing out."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from podium.errors import ConfigError, PlanForbidden
from podium.policy.approval_request import Approve
from podium.policy.check import Breach, broken_pins, broken_rules, lacking, together
from podium.policy.label_flow import Flow, Party, labels_of, named
from podium.policy.repair import pinned, replaced, with_twins
from podium.policy.rules import Pin, Rule, listed, names
from podium.types.plan import Plan

_MOST_TOLD = 5
"""Most breaches that are told of one plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What plans may do. One that says nothing allows everything.

    Wherever a policy names workers, a worker's name will do, or a label. `first & second`
    is a policy under which both must allow.

    Raises:
        ConfigError: a field is not what it should be.
    """

    allowed: Collection[str] | None = None
    """Who may carry out steps; `None` allows everybody."""
    denied: Collection[str] = ()
    """Who may be shown nothing at all, be it as worker, planner or judge."""
    regions: Collection[str] | None = None
    """Only who has one of these labels may be shown anything; `None` means everybody."""
    required: Collection[str] = ()
    """Each of these must do a step that reaches the answer."""
    apart: Sequence[tuple[str, str]] = ()
    """Pairs that never work in one plan."""
    steps: int | None = None
    """Most steps of a plan; `None` leaves it to `Limits.plan_steps`."""
    rules: Sequence[Rule] = ()
    """Whom data that carries a label may reach."""
    pins: Sequence[Pin] = ()
    """Kinds of step that go to one worker; the first that means a step counts."""
    replace: Callable[[Plan], Plan] | None = None
    """Gives another plan in place of one; `None` takes plans as they are."""
    approve: Approve | None = None
    """Who looks at a plan before it is carried out; `None` asks nobody."""
    also: tuple["Policy", ...] = ()
    """Policies that must allow it too."""
    silent: bool = field(init=False, repr=False, compare=False)
    """Whether it says nothing of plans and labels."""

    def __post_init__(self) -> None:
        for name in ("allowed", "denied", "regions", "required"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, names(value, f"Policy.{name}"))
        for name, kind in (("rules", Rule), ("pins", Pin)):
            found = tuple(getattr(self, name))
            if not all(isinstance(item, kind) for item in found):
                raise ConfigError(f"Policy.{name} is {found!r:.80}: give it a list of {kind.__name__}")
            object.__setattr__(self, name, found)
        apart = tuple(tuple(pair) for pair in self.apart)
        if any(len(names(pair, "Policy.apart")) != 2 for pair in apart):
            raise ConfigError(f"Policy.apart is {apart!r:.80}: give it pairs of names or labels")
        object.__setattr__(self, "apart", apart)
        if self.steps is not None and (type(self.steps) is not int or self.steps < 1):
            raise ConfigError(f"Policy.steps is {self.steps!r:.40}: give it a whole number above 0")
        if not (self.approve is None or self.approve == "later" or callable(self.approve)):
            raise ConfigError(f"Policy.approve is {self.approve!r:.80}: give it a function, or 'later'")
        found = (self.denied, self.required, self.apart, self.steps, self.rules, self.pins, self.replace)
        said = self.allowed is not None or self.regions is not None or any(found)
        object.__setattr__(self, "silent", not said and all(part.silent for part in self.also))

    @property
    def parts(self) -> tuple["Policy", ...]:
        """The policies it consists of; all of them must allow."""
        return (self, *(part for other in self.also for part in other.parts))

    def __and__(self, other: "Policy") -> "Policy":
        """Return a policy under which both must allow."""
        return replace(self, also=(*self.also, other))

    @property
    def everywhere(self) -> "Policy":
        """What holds for everybody whom the run's data reaches: planner, judge, nested runs.

        Whom it denies, its regions and its rules. The rest is about plans over this pool.
        """
        also = tuple(part.everywhere for part in self.also if not part.silent)
        return Policy(denied=self.denied, regions=self.regions, rules=self.rules, also=also)

    @property
    def approvers(self) -> tuple[Approve, ...]:
        """Who must approve a plan, in the order in which they are asked; out of band comes last."""
        asked = [part.approve for part in self.parts if part.approve is not None]
        return tuple(sorted(asked, key=lambda approve: approve == "later"))

    @property
    def asks(self) -> bool:
        """Whether somebody must approve plans."""
        return bool(self.approvers)

    @property
    def waits(self) -> bool:
        """Whether plans are approved out of band, while the run waits in its journal."""
        return "later" in self.approvers

    @property
    def needs_whole_plan(self) -> bool:
        """Whether `required`, `apart` or `replace` is set, which cannot be decided step by step."""
        return any(part.required or part.apart or part.replace is not None for part in self.parts)

    @property
    def most_steps(self) -> int | None:
        """Most steps of a plan, over all parts; `None` where nobody says."""
        return min((part.steps for part in self.parts if part.steps is not None), default=None)

    def check(
        self,
        plan: Plan,
        cards: Sequence[Party],
        labels: frozenset[str],
        previous: frozenset[str] = frozenset(),
    ) -> Plan:
        """Return the plan as it may be carried out: as it is, replaced, or repaired.

        A repair is made where there is one way to make it: a pinned step goes to its
        worker, and a step of a worker that may not do it to the only one that may and is
        alike. Alike is who has the same labels, at least one, and besides only such as
        the policy asks for.
        What was changed is said in the plan's `why`.

        Args:
            plan: its workers are numbers of `cards`. One without steps is let pass.
            cards: the pool's.
            labels: those every step is shown: the query's, and those of all that whoever
                wrote the plan had seen.
            previous: those of the round before, for the steps that are shown it.

        Raises:
            PlanForbidden: it cannot be allowed; the message is one for its planner.
            ConfigError: a function of the policy raised, or gave what is no plan.
        """
        if self.silent or not plan.steps:
            return plan
        parts = self.parts
        plan = replaced(plan, cards, [part.replace for part in parts if part.replace is not None])
        pins = [pin for part in parts for pin in part.pins]
        plan = pinned(plan, cards, pins)
        steps = plan.steps
        plan = with_twins(
            plan,
            cards,
            lambda step: labels | previous if step.previous else labels,
            self.admits,
            frozenset().union(*(_wanted(part) for part in parts)),
            lambda index: any(pin.means(steps[index]) for pin in pins),
        )
        self.verify(plan, cards, labels, previous)
        return plan

    def verify(
        self,
        plan: Plan,
        cards: Sequence[Party],
        labels: frozenset[str],
        previous: frozenset[str] = frozenset(),
    ) -> None:
        """See that a plan is allowed as it is, and change nothing; arguments are those of `check`.

        Raises:
            PlanForbidden: it is not.
            ConfigError: a function of the policy raised.
        """
        if self.silent or not plan.steps:
            return
        flows = labels_of(plan, cards, labels, previous)
        breaches = [breach for part in self.parts for breach in _breaches(part, plan, cards, flows)]
        if not breaches:
            return
        told = "; ".join(breach.told for breach in breaches[:_MOST_TOLD])
        steps = sorted({breach.step for breach in breaches if breach.step is not None})
        for index in steps[:_MOST_TOLD]:
            able = [card.name for card in cards if self.admits(card, flows[index].shown)]
            rather = f"give it to {listed(able)}" if able else "nobody may be shown what it is: leave it out"
            told += f". Step {index}: {rather}, or take what it may not be shown off its access list"
        raise PlanForbidden(told, step=steps[0] if steps else None)

    def guard(self, card: Party, labels: frozenset[str]) -> None:
        """Check once more what a call is about to show a worker.

        Args:
            card: the worker's; of planners and judges under `everywhere`.
            labels: those of all it would be shown.

        Raises:
            PlanForbidden: it may not see that.
        """
        if self.silent:
            return
        reason = self.objection(card, labels)
        if reason:
            raise PlanForbidden(f"{card.name!r} may not be called: {reason}")

    def admits(self, card: Party, labels: frozenset[str]) -> bool:
        """Say whether `guard` lets a worker be shown what carries these labels."""
        return self.silent or not self.objection(card, labels)

    def objection(self, card: Party, labels: frozenset[str]) -> str:
        """Return why a worker may not be shown what carries these labels; empty when it may."""
        for part in self.parts:
            if reason := _exclusion(part, card):
                return reason
            for rule in part.rules:
                if not rule.allows(card, labels):
                    return f"by the policy, {rule}"
        return ""

    def fit(self, cards: Sequence[Party]) -> None:
        """See that the policy is one for this pool.

        Raises:
            ConfigError: it pins or requires somebody who is not in the pool, or leaves nobody to work.
        """
        pool = ", ".join(card.name for card in cards)
        for part in self.parts:
            for pin in part.pins:
                if all(card.name != pin.worker for card in cards):
                    raise ConfigError(f"the policy pins steps to {pin.worker!r}; the pool has {pool}")
            for word in sorted({*part.required, *(part.allowed or ())}):
                if not any(named(card, (word,)) for card in cards):
                    raise ConfigError(
                        f"the policy names {word!r}, which is no worker or label of the pool ({pool})"
                    )
        if not any(self.admits(card, frozenset()) for card in cards):
            raise ConfigError(f"the policy leaves nobody of the pool ({pool}) to work")


def _breaches(part: Policy, plan: Plan, cards: Sequence[Party], flows: Sequence[Flow]) -> Iterator[Breach]:
    if part.steps is not None and len(plan.steps) > part.steps:
        yield Breach(None, f"the plan has {len(plan.steps)} steps and the policy allows {part.steps}")
    for index, step in enumerate(plan.steps):
        reason = _exclusion(part, cards[step.worker])
        if reason:
            yield Breach(index, f"step {index} ({cards[step.worker].name}): {reason}")
    yield from lacking(plan, cards, part.required)
    yield from together(plan, cards, part.apart)
    yield from broken_pins(plan, cards, part.pins)
    yield from broken_rules(plan, cards, flows, part.rules)


def _wanted(part: Policy) -> frozenset[str]:
    """Return the labels a policy asks workers to have."""
    return frozenset(
        {*(part.allowed or ()), *(part.regions or ())}.union(*(rule.only for rule in part.rules))
    )


def _exclusion(part: Policy, card: Party) -> str:
    """Return why a worker may be shown nothing at all."""
    if named(card, part.denied):
        return f"the policy denies {listed(part.denied)}"
    if part.allowed is not None and not named(card, part.allowed):
        return f"the policy allows only {listed(part.allowed)}"
    if part.regions is not None and card.labels.isdisjoint(part.regions):
        return f"the policy's regions are {listed(part.regions)}"
    return ""

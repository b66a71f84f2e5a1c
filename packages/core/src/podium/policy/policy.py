"""The class `Policy`: rules for plans and for the data that workers see."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from podium.errors import ConfigError, PlanForbidden
from podium.policy.rules import (
    Flow,
    Party,
    Pin,
    Rule,
    first_pin,
    labels_of,
    listed,
    named,
    names,
    way_of,
)
from podium.secrets import Boundary
from podium.types.forecast import Forecast
from podium.types.messages import Message
from podium.types.outcome import Action
from podium.types.plan import Plan, nearest
from podium.types.steps import Step, calls_in


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A plan that waits for approval, none of whose steps has started; or one action of a plan."""

    run_id: str
    round: int
    """From 1."""
    plan: Plan
    workers: tuple[str, ...]
    """Names of the pool's workers, in the order of the plan's worker numbers."""
    query: tuple[Message, ...] = ()
    """The conversation; empty if the caller gave a plan without a query."""
    actions: tuple[int, ...] = ()
    """Indices of the steps that are actions."""
    action: Action | None = None
    """The action that waits for approval, or the fan-out: its `asked` has number and price, its `worker` is
    empty. `None` if the whole plan waits."""
    labels: frozenset[str] = frozenset()
    """The labels of the data that every step sees; in the first round, the labels of the query."""
    forecast: Forecast
    """The expected calls, tokens, cost and time of the plan."""


Verdict = bool | str | Plan
"""`True` approves the plan or the action; `False` or a text with the reason rejects it; a plan replaces the
waiting plan."""
Asked = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]
"""A function that decides; a synchronous function runs in a thread."""
Approve = Asked | Literal["later"]
"""A function that decides, or `"later"`: the run stops and waits in its journal for `Conductor.decide`."""


Ask = Literal["plans", "actions", "fan-outs"]
"""What an approval is for: see `Policy.ask`."""
_MOST_TOLD = 5
"""Maximum number of breaches in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for plans. An empty policy allows everything.

    All fields that name workers accept names and labels: of the pool, its planners and its judge, or from
    `labels`. Others are refused with the pool. `first & second` allows only what both policies allow.

    Raises:
        ConfigError: a field is invalid.
    """

    allowed: Collection[str] | None = None
    """Workers that may run steps; `None` allows all workers."""
    denied: Collection[str] = ()
    """Workers, planners and judges that must not see any data."""
    regions: Collection[str] | None = None
    """Labels: a worker, planner or judge must have one of them to see data; `None` means no rule."""
    required: Collection[str] = ()
    """Workers; each must have a step that the answer depends on."""
    apart: Sequence[tuple[str, str]] = ()
    """Pairs of workers that must not be in the same plan."""
    steps: int | None = None
    """Maximum steps of a plan; `None` means only `Limits.plan_steps` applies."""
    rules: Sequence[Rule] = ()
    """Rules for data with certain labels: which workers may see such data."""
    pins: Sequence[Pin] = ()
    """Kinds of steps that go to one worker; for each step the first matching pin applies."""
    replace: Callable[[Plan], Plan] | None = None
    """A function that returns a plan to run instead; `None` keeps plans."""
    approve: Approve | None = None
    """Approves plans or actions before they start; `None` means no approval."""
    ask: Ask = "plans"
    """What `approve` approves: each plan before it runs, each action at its arguments while others run, or
    only items and turns above `ask_above`. A decision counts for this step with these arguments or items."""
    ask_above: Mapping[str, float] = field(default_factory=dict)
    """Maximum `calls` and `cost` in USD of a run without approval: before items of a map or a further turn
    would exceed one of them, `approve` is asked. Without `approve`, the map or loop fails (`limit`)."""
    fan_out: Literal["fit"] | None = None
    """With `"fit"`, as many items of a map start as the limits allow, in order. By default, a map whose items
    do not fit the limits fails."""
    labels: Collection[str] = ()
    """Labels of queries and of workers inside nested conductors. With rules, a run accepts only these labels
    and those of the pool."""
    unknown: Collection[str] = ()
    """Labels of an assistant's messages whose own labels are unknown, such as answers of other programs."""
    tools: Collection[str] | None = None
    """Workers that may call the tools of the run's caller; `None` means all that take tools."""
    also: tuple["Policy", ...] = ()
    """Further policies that must also allow a plan."""
    silent: bool = field(init=False, repr=False, compare=False)
    """Whether the policy has no rules for plans and labels."""

    def __post_init__(self) -> None:
        for name in ("allowed", "denied", "regions", "required", "labels", "unknown", "tools"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, names(value, f"Policy.{name}"))
        for name, kind in (("rules", Rule), ("pins", Pin)):
            given: object = getattr(self, name)
            if not isinstance(given, Iterable) or not all(isinstance(item, kind) for item in given):
                raise ConfigError(f"Policy.{name} is {given!r:.80}: write a list of {kind.__name__}")
            object.__setattr__(self, name, tuple(given))
        apart = tuple(tuple(pair) for pair in self.apart)
        if any(len(names(pair, "Policy.apart")) != 2 for pair in apart):
            raise ConfigError(f"Policy.apart is {apart!r:.80}: write pairs of names or labels")
        object.__setattr__(self, "apart", apart)
        if self.steps is not None and (type(self.steps) is not int or self.steps < 1):
            raise ConfigError(f"Policy.steps is {self.steps!r:.40}: write a whole number above 0")
        if not (self.replace is None or callable(self.replace)):
            raise ConfigError(f"Policy.replace is {self.replace!r:.80}: set a function")
        self._check_approval()
        found = (self.denied, self.required, self.apart, self.steps, self.rules, self.pins, self.replace)
        said = self.allowed is not None or self.regions is not None or any(found)
        object.__setattr__(self, "silent", not said and all(part.silent for part in self.also))

    def _check_approval(self) -> None:
        if not (self.approve is None or self.approve == "later" or callable(self.approve)):
            raise ConfigError(f"Policy.approve is {self.approve!r:.80}: set a function, or 'later'")
        if self.ask not in get_args(Ask):
            raise ConfigError(f"Policy.ask is {self.ask!r:.40}: write 'plans', 'actions' or 'fan-outs'")
        if self.ask != "plans" and self.approve is None:
            raise ConfigError(f"Policy.ask is {self.ask!r}, but nobody approves them: set Policy.approve")
        if self.ask == "fan-outs" and not self.ask_above:
            raise ConfigError(
                "Policy.ask is 'fan-outs', and no amount needs an approval: set Policy.ask_above"
            )
        for name, most in {**self.ask_above}.items():
            if name not in ("calls", "cost") or isinstance(most, bool) or not most >= 0:
                told = 'write numbers, as in {"calls": 25, "cost": 1.0}'
                raise ConfigError(f"Policy.ask_above has {name!r:.40}: {most!r:.40}: {told}")
        if self.fan_out not in (None, "fit"):
            raise ConfigError(f"Policy.fan_out is {self.fan_out!r:.40}: write 'fit', or leave it out")

    @property
    def parts(self) -> tuple["Policy", ...]:
        """This policy and all policies in `also`."""
        return (self, *(part for other in self.also for part in other.parts))

    def __and__(self, other: "Policy") -> "Policy":
        """Return a policy that allows only what both policies allow."""
        return replace(self, also=(*self.also, other))

    @property
    def everywhere(self) -> "Policy":
        """The fields that apply also to planners, judges and nested runs: `denied`, `regions` and `rules`."""
        also = tuple(part.everywhere for part in self.also if not part.silent)
        return Policy(denied=self.denied, regions=self.regions, rules=self.rules, also=also)

    @property
    def has_rules(self) -> bool:
        """Whether a rule restricts who may see data with a label."""
        return any(part.rules for part in self.parts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the rules do not cover, with the remedy."""
        if not self.has_rules or self.unknown_labels:
            return ()
        told = "it has rules on labels, and other texts of an assistant than recorded answers have no label"
        return (f"{told}: set `unknown` to the labels that such texts should have",)

    @property
    def unknown_labels(self) -> frozenset[str]:
        """The labels `unknown` of all parts."""
        return frozenset().union(*(part.unknown for part in self.parts))

    def approvers_of(self, ask: Ask) -> tuple[Approve, ...]:
        """The approvals that a plan, an action or a fan-out needs, in order; `"later"` is last."""
        parts = [part for part in self.parts if part.ask == ask or (ask == "fan-outs" and part.ask_above)]
        asked = [part.approve for part in parts if part.approve is not None]
        return tuple(sorted(asked, key=lambda approve: approve == "later"))

    @property
    def thresholds(self) -> dict[str, float]:
        """The lowest `ask_above` of all parts."""
        given = [(name, most) for part in self.parts for name, most in part.ask_above.items()]
        return {name: min(most for other, most in given if other == name) for name, _ in given}

    @property
    def takes_what_fits(self) -> bool:
        """Whether `fan_out` of a part is `"fit"`."""
        return any(part.fan_out == "fit" for part in self.parts)

    @property
    def waits(self) -> bool:
        """Whether a plan needs an approval for which the run waits in its journal."""
        return any(part.approve == "later" for part in self.parts)

    @property
    def needs_whole_plan(self) -> bool:
        """Whether `required`, `apart` or `replace` is set, which need a whole plan."""
        return self.relates_steps or any(part.replace is not None for part in self.parts)

    @property
    def relates_steps(self) -> bool:
        """Whether `required` or `apart` is set, which are rules for all steps of a plan together."""
        return any(part.required or part.apart for part in self.parts)

    @property
    def most_steps(self) -> int | None:
        """The lowest `steps` of all parts; `None` if no part sets it."""
        return min((part.steps for part in self.parts if part.steps is not None), default=None)

    def check(
        self,
        plan: Plan,
        cards: Sequence[Party],
        labels: frozenset[str],
        previous: frozenset[str] = frozenset(),
    ) -> Plan:
        """Return the plan, replaced or repaired where the policy requires it.

        A pinned step goes to the worker of its pin. If the worker of a step is not allowed, the step goes to
        a similar worker that is allowed, if there is exactly one. A similar worker has all labels of the
        original worker (at least one), and no other labels except labels that the policy requires. `Plan.why`
        of the returned plan describes the changes.

        Args:
            plan: the plan. A plan without steps is always allowed.
            cards: the cards of the pool's workers.
            labels: the labels of the data that every step sees: the labels of the query, and of all data that
                the planner has seen.
            previous: the labels of the previous round, for the steps that see it.

        Raises:
            PlanForbidden: the policy does not allow the plan; the message is written for the planner.
            ConfigError: a function of the policy raised an exception, or returned an invalid plan.
        """
        if self.silent or not plan.steps:
            return plan
        plan = self._repaired(self._replaced(plan, cards), cards, labels, previous)
        self.verify(plan, cards, labels, previous)
        return plan

    def _replaced(self, plan: Plan, cards: Sequence[Party]) -> Plan:
        for function in (part.replace for part in self.parts if part.replace is not None):
            with Boundary("the policy's replace", ConfigError):
                given: object = function(plan)
            told = "the policy's replace returned"
            if not isinstance(given, Plan) or not given.steps:
                raise ConfigError(f"{told} {given!r:.80}: it must return a plan with steps")
            if (most := max(step.worker for step in given.calls)) >= len(cards):
                raise ConfigError(f"{told} a plan with worker {most}; the workers are 0 to {len(cards) - 1}")
            if given != plan:
                why = _joined(plan.why, given.why, "the policy replaced the plan")
                plan = replace(given, query=plan.query, why=why)
        return plan

    def _repaired(
        self, plan: Plan, cards: Sequence[Party], labels: frozenset[str], previous: frozenset[str]
    ) -> Plan:
        """Return the plan with pinned steps at their workers, and forbidden steps at similar workers."""
        pins = [pin for part in self.parts for pin in part.pins]
        wanted = frozenset[str]().union(*map(_wanted, self.parts))
        numbers = {card.name: number for number, card in enumerate(cards)}
        for index, (path, step, _, _) in enumerate(plan.outline):
            if not isinstance(step, Step):
                continue
            shown = labels_of(plan, cards, labels, previous)[index].shown
            pin, worker, why = first_pin(step, pins), step.worker, ""
            if pin is not None:
                worker, why = numbers.get(pin.worker, worker), "to which such steps are pinned, instead of {}"
            elif not self.admits(cards[worker], shown):
                twins = self._twins(cards[worker], cards, shown, wanted)
                if len(twins) == 1:
                    worker, why = twins[0], "instead of {}, which may not run it"
            if worker != step.worker:
                why = why.format(cards[step.worker].name)
                told = f"the policy gave step {'.'.join(map(str, path))} to {cards[worker].name}, {why}"
                plan = replace(
                    plan.with_step(path, replace(step, worker=worker)), why=_joined(plan.why, told)
                )
        return plan

    def _twins(
        self, card: Party, cards: Sequence[Party], shown: frozenset[str], wanted: frozenset[str]
    ) -> list[int]:
        """Return the workers that may see the data, with the labels of a worker and only wanted others."""
        own = card.labels
        alike = [n for n, other in enumerate(cards) if own and own <= other.labels <= own | wanted]
        return [number for number in alike if self.admits(cards[number], shown)]

    def verify(
        self,
        plan: Plan,
        cards: Sequence[Party],
        labels: frozenset[str],
        previous: frozenset[str] = frozenset(),
    ) -> None:
        """Check that a plan is allowed without changes. `check` describes the arguments.

        Raises:
            PlanForbidden: the policy does not allow the plan.
            ConfigError: a function of the policy raised.
        """
        if self.silent or not plan.steps:
            return
        flows = labels_of(plan, cards, labels, previous)
        breaches = [breach for part in self.parts for breach in _breaches(part, plan, cards, flows)]
        if not breaches:
            return
        told = "; ".join(message for _, message in breaches[:_MOST_TOLD])
        steps, places = sorted({step for step, _ in breaches if step is not None}), plan.outline
        for index in steps[:_MOST_TOLD]:
            able = [card.name for card in cards if self.admits(card, flows[index].shown)]
            rather = f"give it to {listed(able)}" if able else "no worker may see its data, so leave it out"
            told += f". Step {places[index].name}: {rather}, or remove the steps with forbidden data"
            told += " from its access list"
        raise PlanForbidden(told, step=places[steps[0]].path[0] if steps else None)

    def guard(self, card: Party, labels: frozenset[str]) -> None:
        """Check before a call that the worker may see its input.

        Args:
            card: the worker's card. For planners and judges, call `everywhere.guard`.
            labels: the labels of all data in the input.

        Raises:
            PlanForbidden: the worker may not see the input.
        """
        if reason := self.objection(card, labels):
            raise PlanForbidden(f"{card.name!r} may not be called: {reason}")

    def admits(self, card: Party, labels: frozenset[str]) -> bool:
        """Return whether a worker may see data with these labels."""
        return not self.objection(card, labels)

    def lends(self, card: Party) -> bool:
        """Return whether a worker may call the tools of the run's caller."""
        return all(part.tools is None or named(card, part.tools) for part in self.parts)

    def objection(self, card: Party, labels: frozenset[str]) -> str:
        """Return why a worker may not see data with these labels; empty if it may."""
        for part in () if self.silent else self.parts:
            if reason := _exclusion(part, card):
                return reason
            for rule in part.rules:
                if not rule.allows(card, labels):
                    return f"by the policy, {rule}"
        return ""

    def fit(self, cards: Sequence[Party], others: Iterable[Party] = ()) -> None:
        """Check that the policy can work with the pool.

        Args:
            cards: the cards of the pool's workers.
            others: further parties that the policy may name: planners, the judge.

        Raises:
            ConfigError: the policy names a worker or label that nothing has, or allows no worker.
        """
        known = self._known((*cards, *others))
        for part in self.parts:
            for pin in part.pins:
                if all(card.name != pin.worker for card in cards):
                    raise _unknown("pins", pin.worker, "worker", cards, [card.name for card in cards])
            for word in sorted(part.required):
                having = [card for card in cards if named(card, (word,))]
                if not having:
                    raise _unknown("required", word, "worker or label", cards, self._known(cards) - {word})
                reasons = [self.objection(card, frozenset()) for card in having]
                if all(reasons):
                    told = f"Policy.required names {word!r}, which no plan can have"
                    raise ConfigError(f"{told}: {reasons[0]}")
            for field_name, words in _named(part):
                for word in sorted(words - known):
                    raise _unknown(field_name, word, "worker or label", cards, known)
        if not any(self.admits(card, frozenset()) for card in cards):
            pool = ", ".join(card.name for card in cards)
            raise ConfigError(f"the policy allows no worker of the pool ({pool})")

    def check_labels(self, labels: Collection[str], parties: Iterable[Party]) -> None:
        """Check the labels that the caller gives to a query, if there are rules.

        Args:
            labels: the labels.
            parties: the cards of the pool's workers, its planners and its judge.

        Raises:
            ConfigError: `labels` of no policy has a label, and nothing else has it.
        """
        if not (labels and self.has_rules):
            return
        known = self._known(parties)
        for word in sorted({*labels} - known):
            told = f"the query has the label {word!r}, which the policy does not declare"
            raise ConfigError(f"{told}: {_hint(word, known, 'write it in Policy.labels')}")

    def _known(self, parties: Iterable[Party]) -> frozenset[str]:
        """Return all words that the fields of this policy may have."""
        declared = frozenset[str]().union(*(part.labels for part in self.parts))
        return declared.union(*({party.name, *party.labels} for party in parties))


def _named(part: Policy) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the fields that name workers or labels, with their words."""
    yield "allowed", frozenset(part.allowed or ())
    yield "denied", frozenset(part.denied)
    yield "regions", frozenset(part.regions or ())
    yield "apart", frozenset(word for pair in part.apart for word in pair)
    yield "unknown", frozenset(part.unknown)
    yield "tools", frozenset(part.tools or ())
    for rule in part.rules:
        yield "rules", frozenset({rule.label, *rule.never, *rule.only})


def _unknown(key: str, word: str, kind: str, cards: Sequence[Party], known: Collection[str]) -> ConfigError:
    rather = f"the workers are {', '.join(card.name for card in cards)}; Policy.labels declares others"
    return ConfigError(
        f"Policy.{key} names {word!r}, which is no {kind} of the pool: {_hint(word, known, rather)}"
    )


def _hint(word: str, known: Collection[str], rather: str) -> str:
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else rather


def _breaches(
    part: Policy, plan: Plan, cards: Sequence[Party], flows: Sequence[Flow]
) -> Iterator[tuple[int | None, str]]:
    """Yield the breaches of one policy: the place in the outline (`None`: the plan), and the message."""
    if part.steps is not None and len(plan.calls) > part.steps:
        yield None, f"the plan has {len(plan.calls)} steps and the policy allows {part.steps}"
    for index, place in enumerate(plan.outline):
        step = place.step
        if not isinstance(step, Step):
            continue
        card, pin = cards[step.worker], first_pin(step, part.pins)
        if reason := _exclusion(part, card):
            yield index, f"step {place.name} ({card.name}): {reason}"
        if pin is not None and card.name != pin.worker:
            yield index, f"step {place.name}: the policy pins steps of this kind to {pin.worker}"
        for rule in part.rules:
            if not rule.allows(card, flows[index].shown):
                yield index, f"{way_of(plan, cards, rule.label, index)}: by the policy, {rule}"
    for told in _breaches_together(part, plan, cards):
        yield None, told


def _breaches_together(part: Policy, plan: Plan, cards: Sequence[Party]) -> Iterator[str]:
    """Yield the workers that a plan lacks, and those that must not be together in it."""
    needed = [cards[step.worker] for index in plan.needed for step in calls_in([plan.steps[index]])]
    for word in sorted(part.required):
        if not any(named(card, (word,)) for card in needed):
            able = listed([card.name for card in cards if named(card, (word,))])
            yield f"the policy requires {word!r}: give {able} a step that the answer depends on"
    used = {step.worker for step in plan.calls}
    for pair in part.apart:
        ones, others = ({worker for worker in used if named(cards[worker], (word,))} for word in pair)
        # One worker with both labels is not a pair.
        if any(first != second for first in ones for second in others):
            yield f"the policy keeps {pair[0]!r} and {pair[1]!r} apart: use only one of them in a plan"


def _wanted(part: Policy) -> frozenset[str]:
    """Return the labels that a policy asks workers to have."""
    return frozenset(
        {*(part.allowed or ()), *(part.regions or ())}.union(*(rule.only for rule in part.rules))
    )


def _exclusion(part: Policy, card: Party) -> str:
    """Return why a worker may see no data; empty if it may."""
    if named(card, part.denied):
        return f"the policy denies {listed(part.denied)}"
    if part.allowed is not None and not named(card, part.allowed):
        return f"the policy allows only {listed(part.allowed)}"
    if part.regions is not None and card.labels.isdisjoint(part.regions):
        return f"the policy's regions are {listed(part.regions)}"
    return ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)

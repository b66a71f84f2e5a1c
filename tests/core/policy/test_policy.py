"""What a policy lets pass, what it repairs, and what it says of the rest."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from core.actors import Row, plan_of

from podium.conductor import Conductor
from podium.errors import ConfigError, PlanForbidden
from podium.planners import ChatPlanner, FixedPlanner, RulePlanner
from podium.policy import Pin, Policy, Rule
from podium.types import Plan
from podium.workers import Card, Pool, ScriptedWorker


def card(name: str, *labels: str) -> Card:
    """Return a worker's card."""
    return Card(name=name, labels=frozenset(labels))


CARDS = (
    card("retriever", "untrusted"),
    card("writer"),
    card("mailer", "write-tools"),
    card("gpt", "us", "strong"),
    card("mistral", "eu", "strong"),
)
NONE: frozenset[str] = frozenset()
FLOW = plan_of((0, "Find it.", ()), (1, "Sum it up.", (0,)), (2, "Mail the sum.", (1,)))
"""What the retriever found reaches the mailer by way of the writer."""


def check(policy: Policy, *steps: Row, labels: frozenset[str] = NONE) -> Plan:
    """Check a plan."""
    return policy.check(plan_of(*steps), CARDS, labels)


def refusal(policy: Policy, *steps: Row, labels: frozenset[str] = NONE) -> PlanForbidden:
    """Return what a policy says of a plan it does not allow."""
    with pytest.raises(PlanForbidden) as caught:
        check(policy, *steps, labels=labels)
    assert caught.value.code == "policy"
    return caught.value


def test_a_rule_is_proven_along_every_access_list() -> None:
    """The message names the way the data would take, the rule, and who may have it instead."""
    policy = Policy(rules=[Rule("untrusted", never="write-tools")])
    with pytest.raises(PlanForbidden) as caught:
        policy.check(FLOW, CARDS, NONE)
    told = str(caught.value)
    assert caught.value.step == 2
    assert "step 0 (retriever: untrusted) → step 1 (writer) → step 2 (mailer: write-tools)" in told
    assert "data with the label 'untrusted' never reaches 'write-tools'" in told
    assert "give it to 'gpt', 'mistral', 'retriever', 'writer'" in told


@pytest.mark.parametrize(
    ("policy", "steps", "told"),
    [
        (Policy(denied="write-tools"), [(2, "a", ()), (1, "b", (0,))], "the policy denies 'write-tools'"),
        (Policy(allowed={"strong"}), [(1, "a", ())], "the policy allows only 'strong'"),
        (Policy(regions=["eu"]), [(1, "a", ())], "the policy's regions are 'eu'"),
        (Policy(steps=1), [(0, "a", ()), (1, "b", (0,))], "the plan has 2 steps and the policy allows 1"),
        (
            Policy(required=["strong"]),
            [(1, "a", ())],
            "give 'gpt', 'mistral' a step that the answer depends on",
        ),
        (Policy(required=["gpt"]), [(3, "a", ()), (1, "b", ())], "the policy requires 'gpt'"),
        (
            Policy(apart=[("us", "eu")]),
            [(3, "a", ()), (4, "b", (0,))],
            "the policy keeps 'us' and 'eu' apart",
        ),
    ],
    ids=["denied", "allowed", "regions", "steps", "required", "required, but unseen", "apart"],
)
def test_what_a_policy_refuses(policy: Policy, steps: list[Row], told: str) -> None:
    """Each field has its own words for it."""
    assert told in str(refusal(policy, *steps))


def test_all_that_is_wrong_is_told_at_once() -> None:
    """A planner is asked to repair its plan only once."""
    policy = Policy(denied=["mailer"], required=["gpt"], steps=2, rules=[Rule("untrusted", never="writer")])
    error = refusal(policy, *[(s.worker, s.subtask, s.access) for s in FLOW.steps])
    for part in ("denies 'mailer'", "requires 'gpt'", "has 3 steps", "step 1 (writer: no label)"):
        assert part in str(error)
    assert error.step == 1


def test_a_step_is_pinned_by_words_or_by_a_function() -> None:
    """Words count in any order and form; the first pin that means a step counts."""
    policy = Policy(pins=[Pin("total invoices", "gpt"), Pin(lambda step: not step.access, "mistral")])
    plan = check(
        policy, (0, "Find the page.", ()), (1, "Compute the totals of this invoice.", (0,)), (1, "b", (1,))
    )
    assert [step.worker for step in plan.steps] == [4, 3, 1]
    assert plan.why == (
        "the policy gave step 0 to mistral, to which such steps are pinned, instead of retriever; "
        "the policy gave step 1 to gpt, to which such steps are pinned, instead of writer"
    )


def test_a_pin_does_not_get_a_worker_past_a_rule() -> None:
    """Nobody else takes a pinned step, either."""
    policy = Policy(pins=[Pin("mail", "mailer")], rules=[Rule("untrusted", never="write-tools")])
    assert "step 2 (mailer: write-tools)" in str(
        refusal(policy, *[(s.worker, s.subtask, s.access) for s in FLOW.steps])
    )


def test_a_step_goes_to_the_only_worker_that_is_alike() -> None:
    """Alike is who has the same labels, and besides only such as the policy asks for."""
    pool = (card("a", "here"), card("b", "here", "tools"), card("gpt", "strong"), card("c"))
    pool += (card("twin", "strong"), card("eu twin", "strong", "eu"))
    plan = plan_of((2, "x", ()), (1, "y", (0,)))
    for policy, worker in ((Policy(denied="gpt"), 4), (Policy(regions=["eu", "here"]), 5)):
        repaired = policy.check(plan, pool, NONE)
        assert [step.worker for step in repaired.steps] == [worker, 1]
        told = f"the policy gave step 0 to {pool[worker].name}, instead of gpt, which may not run it"
        assert repaired.why == told


@pytest.mark.parametrize(
    "pool",
    [
        [card("a", "strong"), card("b", "strong"), card("c", "strong")],
        [card("a"), card("b")],
        [card("a", "strong"), card("b", "strong", "write-tools")],
    ],
    ids=["two are alike", "nothing is said of them", "one can do more"],
)
def test_nobody_guesses_who_else_could_do_a_step(pool: list[Card]) -> None:
    """What can be mended in two ways, or in none that is sure, is the planner's to mend."""
    with pytest.raises(PlanForbidden, match="denies 'a'"):
        Policy(denied="a").check(plan_of((0, "x", ())), pool, NONE)


def test_a_plan_is_replaced_by_a_function() -> None:
    """What it gives is checked as any other, and keeps its question."""
    fixed = plan_of((1, "Always this.", ()))
    policy = Policy(replace=lambda _: fixed)
    plan = check(policy, (0, "Find it.", ()))
    assert plan == fixed
    assert "the policy replaced the plan" in plan.why
    assert policy.check(fixed, CARDS, NONE) is fixed
    with pytest.raises(PlanForbidden):
        check(policy & Policy(denied="writer", allowed=["retriever", "writer"]), (0, "Find it.", ()))


def _raise(_: object) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_raise, "the policy's replace raised ValueError: no"),
        (lambda _: None, "the policy's replace returned None"),
        (lambda _: Plan(()), "return a plan with steps"),
        (lambda _: plan_of((9, "x", ())), "with worker 9; the workers are 0 to 4"),
    ],
)
def test_a_function_that_gives_no_plan_is_the_callers_mistake(
    function: Callable[[Plan], Any], told: str
) -> None:
    """It is told as such, and not to the planner; that of a pin, too."""
    with pytest.raises(ConfigError, match=told):
        check(Policy(replace=function), (0, "Find it.", ()))
    with pytest.raises(ConfigError, match="the pin of 'gpt' raised ValueError"):
        check(Policy(pins=[Pin(_raise, "gpt")]), (1, "x", ()))


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy(allowed=[]), "allows no worker of the pool"),
        (Policy(allowed=["writer"]) & Policy(denied=["writer"]), "allows no worker of the pool"),
        (
            Policy(required=["mailer"], denied=["write-tools"]),
            "required names 'mailer', which no plan can have",
        ),
        (
            Policy(required=["judge"], labels=["judge"]),
            "required names 'judge', .*: the workers are retriever",
        ),
    ],
)
def test_a_policy_for_another_pool_is_refused(policy: Policy, told: str) -> None:
    """Before anything is planned."""
    with pytest.raises(ConfigError, match=told):
        policy.fit(CARDS)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy(denied=["Writer"]), "Policy.denied names 'Writer', .*: did you mean 'writer'"),
        (Policy(allowed=["writer", "malier"]), "Policy.allowed names 'malier', .*: did you mean 'mailer'"),
        (Policy(apart=[("us", "EU")]), "Policy.apart names 'EU', .*: did you mean 'eu'"),
        (Policy(rules=[Rule("untrused", never="mailer")]), "Policy.rules names 'untrused', .*'untrusted'"),
        (Policy(rules=[Rule("untrusted", only="writers")]), "Policy.rules names 'writers', .*'writer'"),
        (Policy(pins=[Pin("mail", "strong")]), "Policy.pins names 'strong', which is no worker of the pool"),
        (Policy(unknown="untrused"), "Policy.unknown names 'untrused', .*'untrusted'"),
    ],
)
def test_a_policy_that_protects_nothing_is_refused(policy: Policy, told: str) -> None:
    """With the nearest name, by a conductor, and for one run."""
    workers = [ScriptedWorker(card, "x") for card in CARDS]
    with pytest.raises(ConfigError, match=told):
        Conductor(RulePlanner(), workers, policy=policy)
    with pytest.raises(ConfigError, match=told):
        Conductor(RulePlanner(), workers).run_sync("Why?", policy=policy)


def test_a_policy_names_planners_judges_and_declared_labels() -> None:
    """They are not in the pool, and may see data all the same."""
    workers = [ScriptedWorker(card, "x") for card in CARDS]
    boss = ChatPlanner(ScriptedWorker(card("boss", "vendor"), "x"))
    rules = [Rule("confidential", never=["vendor", "boss"]), Rule("untrusted", never="judge")]
    judge = ScriptedWorker("judge", "YES")
    Conductor(boss, workers, policy=Policy(labels="confidential", rules=rules), accept=judge)
    Conductor(boss, workers, policy=Policy(rules=rules) & Policy(labels="confidential"), accept=judge)
    with pytest.raises(ConfigError, match="judge"):
        Conductor(boss, workers, policy=Policy(labels="confidential", rules=rules))


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"confidental"}, "has the label 'confidental', .*: did you mean 'confidential'"),
        ({"secret"}, "has the label 'secret', .*: write it in Policy.labels"),
        (set(), ""),
    ],
)
def test_a_label_of_a_run_is_declared(labels: set[str], told: str) -> None:
    """With rules, a label that no worker has and nobody declared protects nothing."""
    workers = [ScriptedWorker(card, "x") for card in CARDS]
    policy = Policy(labels="confidential", rules=[Rule("confidential", never="us")])
    plan = plan_of((4, "x", ()))
    conductor = Conductor(FixedPlanner(plan), workers, policy=policy)
    with pytest.raises(ConfigError, match=told) if told else nullcontext():
        conductor.run_sync("Why?", labels=labels)
    assert Conductor(FixedPlanner(plan), workers).run_sync("Why?", labels=labels).status == "ok"


NAMES = [
    ("", "at least one character"),
    (" a", "no spaces at the ends"),
    ("a\u200bb", "characters of no width"),
    ("a\nb", "control characters"),
    ("e\u0301", "the Unicode form NFC, as '\u00e9'"),
    ("x" * 101, "at most 100 characters"),
    ("w\u0435b", "several scripts \\(CYRILLIC, LATIN\\)"),
    ("\u03bf\u043e", "several scripts \\(CYRILLIC, GREEK\\)"),
    ("x" * 100, ""),
    ("GPT-5 \u65e5\u672c\u8a9e\u30e9\u30fc\u30e1\u30f3", ""),
    ("\u0430\u0433\u0435\u043d\u0442 7", ""),
]


@pytest.mark.parametrize(("name", "told"), NAMES)
def test_what_is_a_name(name: str, told: str) -> None:
    """A name that looks like another one is refused."""
    with pytest.raises(ConfigError, match=told) if told else nullcontext():
        Card(name=name)


@pytest.mark.parametrize(
    "make",
    [
        lambda name: Card(name="a", labels=frozenset({name})),
        lambda name: Policy(denied=[name]),
        lambda name: Policy(labels=[name]),
        lambda name: Rule(name, never="a"),
        lambda name: Rule("a", only=name),
        lambda name: Conductor(FixedPlanner(FLOW), [ScriptedWorker("a", "x")]).run_sync("Y?", labels=[name]),
    ],
    ids=["label", "word", "declared", "rule", "only", "run"],
)
def test_names_are_checked_wherever_they_are_written(make: Callable[[str], object]) -> None:
    """Labels are names, too."""
    with pytest.raises(ConfigError, match="no spaces at the ends"):
        make(" a")


@pytest.mark.parametrize(
    ("cards", "told"),
    [
        ([card("Web"), card("web")], "names of two workers 'Web' and 'web' differ only in case"),
        ([card("web"), card("\uff57eb")], "names of two workers"),
        ([card("stra\u00dfe"), card("STRASSE")], "names of two workers"),
        ([card("a", "EU"), card("b", "eu")], "labels of workers 'EU' and 'eu'"),
    ],
)
def test_two_names_of_a_pool_differ(cards: list[Card], told: str) -> None:
    """In more than their case or Unicode form."""
    with pytest.raises(ConfigError, match=told):
        Pool([ScriptedWorker(each, "x") for each in cards])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Rule("x"), "must have exactly one of never and only"),
        (lambda: Rule("x", never="a", only="b"), "must have exactly one of never and only"),
        (lambda: Rule("x", never=[3]), "write names or labels"),  # type: ignore[list-item]  # what is refused
        (lambda: Pin("of the", "a"), "words of the subtasks it matches"),
        (lambda: Policy(denied=3), "Policy.denied is 3"),  # type: ignore[arg-type]  # what is refused
        (lambda: Policy(steps=0), "a whole number above 0"),
        (lambda: Policy(apart=[("a",)]), "pairs of names"),  # type: ignore[list-item]  # what is refused
        (lambda: Policy(rules=Rule("x", never="a")), "a list of Rule"),  # type: ignore[arg-type]  # what is refused
        (lambda: Policy(replace="writer"), "Policy.replace is 'writer'"),  # type: ignore[arg-type]  # what is refused
        (lambda: Policy(approve="never"), "set a function"),  # type: ignore[arg-type]  # what is refused
    ],
)
def test_what_makes_no_policy(make: Callable[[], object], told: str) -> None:
    """It is refused where it is written."""
    with pytest.raises(ConfigError, match=told):
        make()

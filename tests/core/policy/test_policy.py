"""What a policy lets pass, what it repairs, and what it says of the rest."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from core.actors import Row, plan_of

from podium import Card, ChatPlanner, Conductor, Plan, Pool, RulePlanner, ScriptedWorker
from podium.errors import ConfigError, PlanForbidden
from podium.planners import FixedPlanner
from podium.policy import Pin, Policy, Rule


def card(name: str, *labels: str) -> Card:
    return Card(name=name, labels=frozenset(labels))


CARDS = (card("retriever", "untrusted"), card("writer"), card("mailer", "write-tools"))
CARDS += (card("gpt", "us", "strong"), card("mistral", "eu", "strong"))
NONE: frozenset[str] = frozenset()
FLOW = plan_of((0, "Find it.", ()), (1, "Sum it up.", (0,)), (2, "Mail the sum.", (1,)))
"""What the retriever found reaches the mailer by way of the writer."""


def check(policy: Policy, *steps: Row, labels: frozenset[str] = NONE) -> Plan:
    return policy.check(plan_of(*steps), CARDS, labels)


def refusal(policy: Policy, *steps: Row, labels: frozenset[str] = NONE) -> PlanForbidden:
    """Return what a policy says of a plan it does not allow."""
    with pytest.raises(PlanForbidden) as caught:
        check(policy, *steps, labels=labels)
    assert caught.value.code == "policy"
    return caught.value


def test_a_rule_is_proven_along_every_access_list() -> None:
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
        (Policy(required=["strong"]), [(1, "a", ())], "give 'gpt', 'mistral' a step that the answer"),
        (Policy(required=["gpt"]), [(3, "a", ()), (1, "b", ())], "the policy requires 'gpt'"),
        (Policy(apart=[("us", "eu")]), [(3, "a", ()), (4, "b", (0,))], "policy keeps 'us' and 'eu' apart"),
    ],
    ids=["denied", "allowed", "regions", "steps", "required", "required, but unseen", "apart"],
)
def test_what_a_policy_refuses(policy: Policy, steps: list[Row], told: str) -> None:
    assert told in str(refusal(policy, *steps))


def test_all_that_is_wrong_is_told_at_once() -> None:
    policy = Policy(denied=["mailer"], required=["gpt"], steps=2, rules=[Rule("untrusted", never="writer")])
    error = refusal(policy, *[(s.worker, s.subtask, s.access) for s in FLOW.steps])
    for part in ("denies 'mailer'", "requires 'gpt'", "has 3 steps", "step 1 (writer: no label)"):
        assert part in str(error)
    assert error.step == 1


def test_a_step_is_pinned_by_words_or_by_a_function() -> None:
    policy = Policy(pins=[Pin("total invoices", "gpt"), Pin(lambda step: not step.access, "mistral")])
    steps: Any = ((0, "Find the page.", ()), (1, "Add the totals of the invoice.", (0,)), (1, "b", (1,)))
    plan = check(policy, *steps)
    assert [step.worker for step in plan.steps] == [4, 3, 1]
    assert plan.why == (
        "the policy gave step 0 to mistral, to which such steps are pinned, instead of retriever; "
        "the policy gave step 1 to gpt, to which such steps are pinned, instead of writer"
    )


def test_a_step_goes_to_the_only_worker_that_is_alike() -> None:
    pool = (card("a", "here"), card("b", "here", "tools"), card("gpt", "strong"), card("c"))
    pool += (card("twin", "strong"), card("eu twin", "strong", "eu"))
    plan = plan_of((2, "x", ()), (1, "y", (0,)))
    for policy, worker in ((Policy(denied="gpt"), 4), (Policy(regions=["eu", "here"]), 5)):
        repaired = policy.check(plan, pool, NONE)
        assert [step.worker for step in repaired.steps] == [worker, 1]
        told = f"the policy gave step 0 to {pool[worker].name}, instead of gpt, which may not run it"
        assert repaired.why == told


def test_a_plan_is_replaced_by_a_function() -> None:
    fixed = plan_of((1, "Always this.", ()))
    policy = Policy(replace=lambda _: fixed)
    plan = check(policy, (0, "Find it.", ()))
    assert plan == fixed
    assert "the policy replaced the plan" in plan.why
    assert policy.check(fixed, CARDS, NONE) is fixed
    with pytest.raises(PlanForbidden):
        check(policy & Policy(denied="writer", allowed=["retriever", "writer"]), (0, "Find it.", ()))


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy(denied=["Writer"]), "Policy.denied names 'Writer', .*: did you mean 'writer'"),
        (Policy(allowed=["writer", "malier"]), "Policy.allowed names 'malier', .*: did you mean 'mailer'"),
        (Policy(rules=[Rule("untrused", never="mailer")]), "Policy.rules names 'untrused', .*'untrusted'"),
        (Policy(pins=[Pin("mail", "strong")]), "Policy.pins names 'strong', which is no worker of the pool"),
        (Policy(unknown="untrused"), "Policy.unknown names 'untrused', .*'untrusted'"),
    ],
)
def test_a_policy_that_protects_nothing_is_refused(policy: Policy, told: str) -> None:
    workers = [ScriptedWorker(card, "x") for card in CARDS]
    with pytest.raises(ConfigError, match=told):
        Conductor(RulePlanner(), workers, policy=policy)
    with pytest.raises(ConfigError, match=told):
        Conductor(RulePlanner(), workers).run_sync("Why?", policy=policy)


def test_a_policy_names_planners_judges_and_declared_labels() -> None:
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
    ("e\u0301", "the Unicode form NFC, as '\u00e9'"),
    ("x" * 101, "at most 100 characters"),
    ("w\u0435b", "several scripts \\(CYRILLIC, LATIN\\)"),
    ("GPT-5 \u65e5\u672c\u8a9e\u30e9\u30fc\u30e1\u30f3", ""),
    ("\u0430\u0433\u0435\u043d\u0442 7", ""),
]


@pytest.mark.parametrize(("name", "told"), NAMES)
def test_what_is_a_name(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) if told else nullcontext():
        Card(name=name)


def _pool(*cards: Card) -> Pool:
    return Pool([ScriptedWorker(each, "x") for each in cards])


def _replaced(function: Any) -> Plan:
    return check(Policy(replace=function), (0, "Find it.", ()))


def _raise(_: object) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Rule("x"), "must have exactly one of never and only"),
        (lambda: Rule(" a", never="a"), "no spaces at the ends"),
        (lambda: Card(name="a", labels=frozenset({" a"})), "no spaces at the ends"),
        (lambda: Pin("of the", "a"), "words of the subtasks it matches"),
        (lambda: Policy(denied=3), "Policy.denied is 3"),  # type: ignore[arg-type]  # what is refused
        (lambda: Policy(apart=[("a",)]), "pairs of names"),  # type: ignore[list-item]  # what is refused
        (lambda: Policy(approve="never"), "set a function"),  # type: ignore[arg-type]  # what is refused
        (lambda: Policy(ask="actions"), "nobody approves them"),
        (lambda: Policy(allowed=[]).fit(CARDS), "allows no worker of the pool"),
        (lambda: Policy(required=["mailer"], denied=["write-tools"]).fit(CARDS), "which no plan can have"),
        (lambda: _pool(card("Web"), card("web")), "'Web' and 'web' differ only in case"),
        (lambda: _pool(card("stra\u00dfe"), card("STRASSE")), "names of two workers"),
        (lambda: _pool(card("a", "EU"), card("b", "eu")), "labels of workers 'EU' and 'eu'"),
        (lambda: _replaced(_raise), "the policy's replace raised ValueError: no"),
        (lambda: _replaced(lambda _: plan_of((9, "x", ()))), "with worker 9; the workers are 0 to 4"),
        (lambda: check(Policy(pins=[Pin(_raise, "gpt")]), (1, "x", ())), "pin of 'gpt' raised ValueError"),
    ],
)
def test_what_makes_no_policy(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()

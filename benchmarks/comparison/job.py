"""The job: N independent units of work, and a step that joins them."""

import re
from dataclasses import dataclass

QUESTION = (
    "We sell garden tools in several regions. Find out for each region how sales, returns and prices "
    "changed over the last four quarters and why, and write a recommendation for next year: where to "
    "invest, where to hold prices, and which regions need a new distributor. Give the reasons."
)
WRITER = "writer"
_REGIONS = (
    "North", "South", "East", "West", "Coast", "Alps", "Lakes", "Valley", "Plains", "Islands", "Capital",
    "Border",
)  # fmt: skip
THOUGHT = (
    "The question asks for one recommendation that rests on findings about each region. The findings do "
    "not depend on each other, so each region can be examined by the analyst who knows it, at the same "
    "time. Each analyst needs the same instruction: the four quarters, sales, returns and prices, and the "
    "causes, with figures, so that the findings can be compared. No analyst needs what another one found. "
    "The recommendation needs all of the findings and nothing else: the writer is therefore shown every "
    "one of them, and is told what to decide: where to invest, where to hold prices, and which regions "
    "need a new distributor. A separate review would not add facts. The last part is the answer, so the "
    "writer must write it for the reader who asked."
)


@dataclass(frozen=True)
class Step:
    """One piece of work, and the agent that does it."""

    name: str
    """The agent's name, and the name of its model on the server."""
    description: str
    subtask: str
    """Its subtask from a planner or from the code that wires the agents, about 50 tokens."""

    @property
    def system(self) -> str:
        """The system prompt of the agent, in hosts with such a prompt."""
        return f"{self.description} {self.subtask}"


@dataclass(frozen=True)
class Job:
    """The units and the join."""

    units: tuple[Step, ...]
    writer: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, the join last."""
        return (*self.units, self.writer)

    def output(self, model: str, request: str) -> str:
        """Return the output of an agent's model: its finding, or the recommendation from all findings."""
        for number, unit in enumerate(self.units, 1):
            if unit.name == model:
                return _finding(number)
        return self.joined(request)

    def joined(self, request: str) -> str:
        """Return a recommendation that cites the findings in the request."""
        cited = sorted({int(number) for number in re.findall(r"\[finding (\d+)\]", request)})
        return f"{_RECOMMENDATION} Sources: {', '.join(f'[finding {number}]' for number in cited)}."

    def missing(self, answer: str) -> list[int]:
        """Return the numbers of the units that the answer does not cite."""
        return [n for n in range(1, len(self.units) + 1) if f"[finding {n}]" not in answer]


def job_of(units: int) -> Job:
    """Return the job with this many units, from 1 to 12."""
    made = tuple(_unit(region) for region in _REGIONS[:units])
    subtask = (
        "Write the recommendation for next year from the findings about the regions: where to invest, where "
        "to hold prices, and which regions need a new distributor. Name the finding that each point rests "
        "on, and keep to two paragraphs that a sales director can read in a minute."
    )
    return Job(made, Step(WRITER, "Writes recommendations for the sales director.", subtask))


def _unit(region: str) -> Step:
    subtask = (
        f"Examine the region {region}: how did sales, returns and prices of garden tools change over the "
        "last four quarters, quarter by quarter, and what caused each change? Name the distributor, give "
        "figures, and say which of the causes will still hold next year."
    )
    return Step(f"analyst_{region.lower()}", f"Knows the sales figures of the region {region}.", subtask)


def _finding(number: int) -> str:
    region = _REGIONS[number - 1]
    return (
        f"[finding {number}] Region {region}: sales rose by {number + 2} percent over the four quarters, "
        f"from {40 + number} to {42 + number} thousand pieces, nearly all of it in the second quarter, when "
        "the spring catalogue reached the shops two weeks earlier than the year before. Returns stayed at "
        "three percent until the third quarter and then rose to five, because one batch of shears had a "
        "loose rivet; the supplier has replaced it. Prices were raised once, in the fourth quarter, by four "
        "percent, and volume did not fall afterwards. The distributor delivers within six days, two more "
        "than agreed, and has lost two of its nine large customers to a competitor. The earlier catalogue "
        "will help next year too; the faulty batch will not recur; the slow deliveries will go on unless "
        "the contract is renewed on other terms or given to someone else."
    )


_RECOMMENDATION = (
    "Invest next year where the early catalogue raised sales and prices could be raised without losing "
    "volume: there a second catalogue in autumn and a larger stock of the ten best sellers will pay. Hold "
    "prices where volume only kept up because of the catalogue, and look again after the second quarter. "
    "The rise in returns came from one faulty batch and calls for no decision.\n\n"
    "Give the distributors that deliver later than agreed until the end of the first quarter to keep the "
    "agreed four days, and prepare a tender now for the regions in which large customers have already left. "
    "The loss of two customers of nine costs more than a change of distributor, and it will go on while the "
    "contract stays as it is. Renew the other contracts for one year."
)

"""What all graphs work with: two silos of documents, the models, the questions, and invoices."""

import os
import re
from dataclasses import dataclass

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

HANDBOOK = (
    (
        "Amounts: every amount is kept in whole cents. Reports write it with two decimals and a point. "
        "There is no sign for thousands and no currency behind the digits; the head of each report names "
        "the currency. An amount that is empty stands for nothing was booked, and is not the same as "
        "zero. Whoever adds a column tells accounting a week before, because their import stops at a "
        "column that it does not know."
    ),
    (
        "Refunds: a refund is an amount below zero. It is written with a minus sign before the digits. "
        "The sign is that of the keyboard, since the program of the auditors knows no other. A refund "
        "names the booking that it undoes, and may be smaller than it. Two people have to agree to a "
        "refund of more than ten thousand cents, and their names are kept with it for as long as the "
        "booking itself is kept."
    ),
    (
        "Exports: CSV exports are made at night; one file for each customer, kept for ninety days. A file "
        "that was fetched is kept as long as one that was not. Texts with a comma or a line break stand "
        "in double quotes. If the night is too short, the exports of the smallest customers wait for the "
        "next one, and the page of the exports says so. Nobody is told by mail when an export is ready, "
        "as the page shows it."
    ),
    (
        "Roles: who exports data needs the role accountant, which an administrator gives. The role ends "
        "after a year without a login, and is given again on request. An administrator cannot give it to "
        "himself. Lists of who has which role are made on the first day of a quarter, and the lead of "
        "each team confirms them within ten days; roles that nobody confirms are taken away on the "
        "eleventh."
    ),
)
TICKETS = (
    "T-118, open: the CSV export writes a refund of 5 cents as 0.-5, and accounting rejects the file.",
    "T-121, closed: an export failed for a customer with a comma in the name. Names are quoted now.",
    "T-130, open: the export of ninety days ago is gone although an auditor still needs it.",
)
INVOICES = (
    "Invoice 1 of 3 May: paper for the printers of the second floor, forty boxes; to be paid: 118.00",
    "Invoice 2 of 9 May: a chair for the reception, with delivery and a year of warranty; to be paid: 349.90",
    "Invoice 3 of 21 May: repair of the door of the archive, two hours of work; to be paid: 96.10",
)
SEARCHED = "Which rule is there for paying somebody back?"
"""A question whose words are not those of the handbook."""
QUESTIONS = (
    "Our CSV export writes refunds wrongly. What is our rule, was it reported, what is format_amount(cents)?",
    "Write a function slug(name) that makes a file name of a customer's name.",
    "Is a CSV export of ninety days ago still there, and has anybody asked for one?",
)
"""One that takes everything, one that takes no document, and one that takes no code."""


class Silo(BaseRetriever):
    """Finds the documents of one silo that share most words with what is asked."""

    documents: tuple[str, ...]
    most: int = 2

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        del run_manager
        asked = set(re.findall(r"\w{4,}", query.lower()))
        shared = {text: len(asked & set(re.findall(r"\w{4,}", text.lower()))) for text in self.documents}
        best = sorted((text for text in shared if shared[text]), key=lambda text: -shared[text])
        return [Document(text, metadata={"source": text.split(":", 1)[0]}) for text in best[: self.most]]


@dataclass(frozen=True)
class Team:
    """Who there is: the same models and silos for both graphs."""

    lead: ChatOpenAI
    """Routes in the one graph, plans in the other."""
    coder: ChatOpenAI
    reviewer: ChatOpenAI
    writer: ChatOpenAI
    handbook: Silo
    tickets: Silo


def make_team(base_url: str, models: dict[str, str]) -> Team:
    """Return the team.

    Args:
        base_url: any endpoint that speaks chat completions; `OPENAI_API_KEY` is its key.
        models: the model of each role: lead, coder, reviewer, writer.
    """
    key = SecretStr(os.environ.get("OPENAI_API_KEY", "none"))
    made = {
        role: ChatOpenAI(model=model, base_url=base_url, api_key=key, temperature=0, max_retries=0)
        for role, model in models.items()
    }
    silos = {"handbook": Silo(documents=HANDBOOK), "tickets": Silo(documents=TICKETS)}
    return Team(**made, **silos)

"""What both graphs work with: two silos of documents, the models, and the questions."""

import os
import re
from dataclasses import dataclass

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

HANDBOOK = (
    "Amounts: every amount is kept in whole cents. Reports write it with two decimals and a point.",
    "Refunds: a refund is an amount below zero. It is written with a minus sign before the digits.",
    "Exports: CSV exports are made at night; one file for each customer, kept for ninety days.",
    "Roles: who exports data needs the role accountant, which an administrator gives.",
)
TICKETS = (
    "T-118, open: the CSV export writes a refund of 5 cents as 0.-5, and accounting rejects the file.",
    "T-121, closed: an export failed for a customer with a comma in the name. Names are quoted now.",
    "T-130, open: the export of ninety days ago is gone although an auditor still needs it.",
)
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

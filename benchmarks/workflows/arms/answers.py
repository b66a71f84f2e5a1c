"""The types of the answers, for the peers that take models of Pydantic."""

from pydantic import BaseModel


class File(BaseModel):
    """A file that changed."""

    path: str


class Files(BaseModel):
    """The answer of the lister."""

    files: list[File]


class Note(BaseModel):
    """The answer of the reader."""

    path: str
    note: str


class Finding(BaseModel):
    """A finding in a file."""

    path: str
    claim: str


class Findings(BaseModel):
    """The answer of the reviewer."""

    findings: list[Finding]


class Vote(BaseModel):
    """The answer of a sceptic."""

    real: bool
    why: str


class Report(BaseModel):
    """The answer of the writer."""

    version: int
    complete: bool
    report: str

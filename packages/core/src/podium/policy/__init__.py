"""What plans may do: who may work, on what data, how many steps, and who must approve."""

from podium.policy.asking import ApprovalRequest, Approve, Asked
from podium.policy.labels import Flow, Party, after, labels_of
from podium.policy.policy import Policy
from podium.policy.rules import Pin, Rule

__all__ = [
    "ApprovalRequest",
    "Approve",
    "Asked",
    "Flow",
    "Party",
    "Pin",
    "Policy",
    "Rule",
    "after",
    "labels_of",
]

from .policy import ApprovalRequest as ApprovalRequest, Approve as Approve, Ask as Ask, Policy as Policy
from .rules import Pin as Pin, Rule as Rule

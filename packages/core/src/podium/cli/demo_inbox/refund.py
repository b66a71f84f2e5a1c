"""The action of `podium demo`: pays refunds. Here, a payment is a line in refunds.txt."""

import json
import sys
from pathlib import Path

prompt = sys.stdin.read()
decided = json.loads(prompt[prompt.rindex('{"orders"') :])
paid = [
    (order, amount) for order, amount in zip(decided["orders"], decided["amounts"], strict=True) if amount
]
with Path("refunds.txt").open("a", encoding="utf-8") as file:
    file.writelines(f"{order} {amount:.2f} EUR\n" for order, amount in paid)
sys.stdout.write(f"{len(paid)} refunds, {sum(amount for _, amount in paid):.2f} EUR in all\n")

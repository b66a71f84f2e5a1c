"""Words the message about a limit of a command with the option that sets the limit."""

import re
from collections.abc import Mapping

_ADVICE = re.compile(r"raise Limits\.(\w+) for more")


def in_options(message: str, options: Mapping[str, str]) -> str:
    """Return the message of a `LimitExceeded` for a command.

    Args:
        message: the message, which advises to raise a field of `Limits`.
        options: the option of the command, by the field of `Limits`.
    """
    told = _ADVICE.sub(lambda found: f"raise {options.get(found[1], f'[limits] {found[1]}')}", message)
    return told.replace("the run has", "the command has")

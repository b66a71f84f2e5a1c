"""Core's list of commands has those of this package."""

from collections.abc import Callable

import pytest
from typer.testing import Result

from podium.config.add_ons import ADD_ONS

SUMMARIES = {
    name: told
    for each in ADD_ONS
    if each.distribution == "podium-evals"
    for name, told in each.commands.items()
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_says_what_each_command_says_of_itself(podium: Callable[..., Result], name: str) -> None:
    """The summaries in the list are the first sentences of the commands' own help."""
    result = podium(*name.split("."), "--help", env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert SUMMARIES[name] in " ".join(result.stdout.split())

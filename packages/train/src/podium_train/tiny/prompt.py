"""The compact prompt of the tiny model: the question and an index of the pool by skill.

The index says what the cards say, turned around: for each skill the workers that list it, then `~` and the
generalists. Prices are left out, because the reward of this world does not use them.
"""

from podium_train.environments import Episode
from podium_train.environments.specialists import GENERAL, SKILLS, skills_of

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
"""Tokens of the chat template, one before each message and one after each answer."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message.role + '|>' + message.content }}{% if message.role == 'assistant' %}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""The chat template in the form of Hugging Face, for messages of the user and the assistant."""


def tiny_message(episode: Episode) -> str:
    """Return the message that the tiny model reads."""
    rows = [f"{skill}:{evidence(episode, skill)}" for skill in SKILLS]
    return f"{episode.question}\n{' '.join(rows)}"


def evidence(episode: Episode, skill: str) -> str:
    """Return the numbers of the workers that list a skill, then those of the generalists: ` 1 3 ~ 4`."""
    pool = [skills_of(name) for name in episode.workers]
    listed = [number for number, skills in enumerate(pool) if skill in skills]
    general = [number for number, skills in enumerate(pool) if skills == GENERAL]
    return _numbers(listed) + (f" ~{_numbers(general)}" if general else "")


def prompt_text(message: str) -> str:
    """Return a message as the model reads it, with the tokens of the chat template."""
    return f"{USER}{message}{ASSISTANT}"


def _numbers(numbers: list[int]) -> str:
    return "".join(f" {number}" for number in numbers)

"""The wordings of the questions: for training, for validation, and held out.

`{a}` and `{b}` are numbers or items of the price list, `{w}` is a word, `{l}` is a list. The name before the
wording is the operation that gives the right answer.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

Wording = Literal["training", "validation", "held_out"]
"""A set of wordings; no wording is in two of them."""
Template = tuple[str, str]
"""The operation that gives the right answer, and the wording."""

ARITH: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("plus", "What is {a} plus {b}?"),
        ("plus", "Calculate the sum of {a} and {b}."),
        ("plus", "Add the numbers {a} and {b}."),
        ("plus", "How much is {a} plus {b}?"),
        ("minus", "What is {a} minus {b}?"),
        ("minus", "Subtract {b} from {a}."),
        ("minus", "Calculate the difference of {a} and {b}."),
        ("minus", "Work out {a} minus {b}."),
        ("times", "What is {a} times {b}?"),
        ("times", "Multiply {a} by {b}."),
        ("times", "Find the product of {a} and {b}."),
        ("times", "How much is the number {a} times the number {b}?"),
    ),
    "validation": (
        ("plus", "Work out the sum of the numbers {a} and {b}."),
        ("times", "The product of {a} and {b} is what?"),
        ("minus", "Find {a} minus {b}."),
    ),
    "held_out": (
        ("plus", "{a} plus {b} is how much?"),
        ("plus", "Please add {b} to {a}."),
        ("minus", "Tell me the difference when you subtract {b} from {a}."),
        ("times", "I need {a} times {b}."),
        ("times", "Work out what you get if you multiply {a} and {b}."),
    ),
}
STRING: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("reverse", "Reverse the word {w}."),
        ("reverse", "Write {w} backwards."),
        ("reverse", "Spell the word {w} backwards."),
        ("reverse", "What is {w} reversed?"),
        ("upper", "Write {w} in capital letters."),
        ("upper", "Turn the letters of {w} into capitals."),
        ("upper", "Spell {w} with capitals."),
        ("first", "What is the first letter of {w}?"),
        ("first", "With which letter does {w} start?"),
        ("last", "What is the last letter of the word {w}?"),
        ("last", "With which letter does the word {w} end?"),
        ("last", "Find the last letter in {w}."),
    ),
    "validation": (
        ("reverse", "Turn the word {w} backwards."),
        ("upper", "Spell the word {w} in capital letters."),
        ("first", "Find the first letter of the word {w}."),
    ),
    "held_out": (
        ("reverse", "Please spell {w} reversed."),
        ("reverse", "How is the word {w} written backwards?"),
        ("upper", "I need the letters of {w} as capitals."),
        ("first", "Tell me which letter is first in the word {w}."),
        ("last", "Which is the last letter that {w} has?"),
    ),
}
LOOKUP: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("price", "What is the price of {a}?"),
        ("price", "Look up the price of {a}."),
        ("price", "Find the price of {a} in the list."),
        ("price", "Which price has {a} in the list?"),
        ("price", "Look in the price list for {a}."),
        ("price", "What does the list say that {a} costs?"),
        ("shelf", "On which shelf is {a}?"),
        ("shelf", "Look up the shelf of {a}."),
        ("shelf", "Find the shelf where {a} is."),
        ("shelf", "Which shelf has {a}?"),
        ("shelf", "Where in the shop is {a}?"),
        ("shelf", "What is the shelf number of {a}?"),
    ),
    "validation": (
        ("price", "Find out what {a} costs in the list."),
        ("shelf", "Look for the shelf of {a} in the shop."),
        ("price", "Which is the price of {a}?"),
    ),
    "held_out": (
        ("price", "Please look up what {a} costs."),
        ("price", "Tell me the price that the list has for {a}."),
        ("shelf", "I need the shelf of {a}."),
        ("shelf", "Where is {a}, on which shelf?"),
        ("price", "How is {a} listed, at which price?"),
    ),
}
SORT: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("up", "Sort these words: {l}."),
        ("up", "Sort {l} from A to Z."),
        ("up", "Put these words in order: {l}."),
        ("up", "Arrange these words from A to Z: {l}."),
        ("up", "What is the order of {l} from A to Z?"),
        ("up", "Order these words: {l}."),
        ("down", "Sort these words from Z to A: {l}."),
        ("down", "Arrange {l} from Z to A."),
        ("down", "Put {l} in order from Z to A."),
        ("down", "Order {l} from Z to A."),
        ("up", "Bring these words into order: {l}."),
        ("up", "Arrange {l} in the order of letters."),
    ),
    "validation": (
        ("up", "Bring {l} into order from A to Z."),
        ("down", "Order these words from Z to A: {l}."),
        ("up", "Arrange in order: {l}."),
    ),
    "held_out": (
        ("up", "Please arrange {l}, from A to Z."),
        ("up", "Tell me the order of these words: {l}."),
        ("up", "I need these words sorted from A to Z: {l}."),
        ("down", "From Z to A, how do you sort {l}?"),
        ("down", "Put from Z to A: {l}."),
    ),
}
CODE: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("code", "Write a function that returns {w}."),
        ("code", "Write a Python function for {w}."),
        ("code", "Implement a function for {w}."),
        ("code", "Implement {w} in Python."),
        ("code", "Program a function that returns {w}."),
        ("code", "Write a program that prints {w}."),
        ("code", "Write a script that prints {w}."),
        ("code", "Code a Python script for {w}."),
        ("code", "Which Python code returns {w}?"),
        ("code", "What does a program for {w} look like in Python?"),
        ("code", "Write code for {w}."),
        ("code", "Find a function that prints {w}."),
    ),
    "validation": (
        ("code", "Implement a Python program for {w}."),
        ("code", "Write a script for {w}."),
        ("code", "What code prints {w}?"),
    ),
    "held_out": (
        ("code", "Please implement {w}."),
        ("code", "I need a function that prints {w}."),
        ("code", "Tell me the Python code for {w}."),
        ("code", "How does a program return {w}?"),
        ("code", "A script for {w} in Python, please."),
    ),
}
MULTI: Mapping[Wording, Sequence[Template]] = {
    "training": (
        ("plus", "What do {a} and {b} cost together?"),
        ("plus", "What is the total of {a} and {b}?"),
        ("plus", "How much do I pay for {a} and {b} together?"),
        ("plus", "Find the total for {a} and {b}."),
        ("plus", "Calculate the total price of {a} and {b}."),
        ("plus", "I buy {a} and {b}: what do I pay together?"),
        ("minus", "How much more does {a} cost than {b}?"),
        ("minus", "How much cheaper is {b} than {a}?"),
        ("minus", "By how much is {a} more expensive than {b}?"),
        ("minus", "Calculate how much cheaper {b} is than {a}."),
        ("minus", "What more do I pay for {a} than for {b}?"),
        ("plus", "Work out what I pay together for {a} and {b}."),
    ),
    "validation": (
        ("plus", "Work out the total of {a} and {b}."),
        ("minus", "Find out how much more {a} costs than {b}."),
        ("plus", "I pay for {a} and {b} together: how much?"),
    ),
    "held_out": (
        ("plus", "Tell me what {a} and {b} cost together."),
        ("plus", "I need the total for {a} and {b}, please."),
        ("plus", "If I buy {a} and {b}, how much do I pay?"),
        ("minus", "{b} is cheaper than {a} by how much?"),
        ("minus", "Is {a} more expensive than {b}, and how much?"),
    ),
}

from .examples import (
    Example as Example,
    WrittenExamples as WrittenExamples,
    best_of as best_of,
    read_examples as read_examples,
    write_examples as write_examples,
)
from .journal import (
    JournalExamples as JournalExamples,
    RunScore as RunScore,
    examples_of_journal as examples_of_journal,
)

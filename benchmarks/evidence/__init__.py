"""Writes the page of results on recorded answers: a table, a picture, sentences, and a file of all figures.

    python -m benchmarks.evidence --data FOLDER [--out docs/evidence-results.md]

The folder has the public recordings that `python -m benchmarks.evidence.fetch` writes, or their packed
files, and the packed file of the tool calls. All arms are asked in one process. The same data and source give
the same bytes.
"""

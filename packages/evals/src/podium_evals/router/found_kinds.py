"""Finds kinds for questions without kinds, by clustering the questions by their words."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from podium_evals.recorded import Question, Recording, Recordings

MOST_KINDS = 100
_TOPICS = 64
_NAME_WORDS = 3


def has_kinds(recordings: Recordings) -> bool:
    """Return whether the questions have at least two kinds."""
    return len(recordings.kinds) > 1


def find_kinds(recordings: Recordings, *, seed: int = 0) -> Recordings:
    """Return the recording with new kinds: clusters of questions with similar words.

    The method is k-means on the leading 64 dimensions of TF-IDF (latent semantic analysis). The number of
    clusters is the square root of half the number of questions, from 2 to 100 (Mardia, Kent and Bibby, 1979,
    page 365). The name of a kind is the three words with the highest weight.

    Args:
        recordings: the recording. Its own kinds are replaced.
        seed: the seed of the clustering.
    """
    questions = recordings.questions
    names = _kinds_of([question.text for question in questions], seed)
    kinds = {question.key: kind for question, kind in zip(questions, names, strict=True)}
    found: dict[str, Question] = {key.key: replace(key, kind=kinds[key.key]) for key in questions}
    return recordings.with_answers(
        Recording(found[each.question.key], each.worker, each.samples) for each in recordings
    )


def _kinds_of(texts: Sequence[str], seed: int) -> list[str]:
    """Return the name of the cluster of each text."""
    words_and_signs = r"(?u)\b\w+\b|[^\w\s]"
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=20_000, token_pattern=words_and_signs)
    terms = vectorizer.fit_transform(texts)
    topics = min(_TOPICS, terms.shape[1] - 1, len(texts) - 1)
    if topics < 2:
        return ["all"] * len(texts)
    places = normalize(TruncatedSVD(topics, random_state=seed).fit_transform(terms)).round(6)
    wanted = min(MOST_KINDS, max(2, round(sqrt(len(texts) / 2))))
    count = min(wanted, len(np.unique(places, axis=0)))
    clusters = KMeans(count, n_init=4, random_state=seed).fit_predict(places)
    words = vectorizer.get_feature_names_out()
    is_word = np.asarray([word.isalpha() and len(word) > 2 for word in words])
    names: dict[int, str] = {}
    for cluster in range(count):
        weights = np.asarray(terms[clusters == cluster].mean(axis=0)).ravel() * is_word
        told = " ".join(words[place] for place in np.argsort(-weights)[:_NAME_WORDS] if weights[place])
        names[cluster] = told if told and told not in names.values() else f"{told} {cluster}".strip()
    return [names[cluster] for cluster in clusters.tolist()]

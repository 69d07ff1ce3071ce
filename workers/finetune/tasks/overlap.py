"""How well an answer agrees with reference answers: exact match and F1 of words, as SQuAD counts them.

Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text", and its published script.
"""

import re
from collections import Counter
from collections.abc import Iterable
from string import punctuation

WITHOUT_PUNCTUATION = str.maketrans("", "", punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without ASCII punctuation and English articles."""
    return ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split()


def exact_match(given: str, references: Iterable[str]) -> float:
    """Return 1 if the answer has the words of one of the references in their order, else 0."""
    words = normalised_words(given)
    return float(any(words == normalised_words(reference) for reference in references))


def word_f1(given: str, references: Iterable[str]) -> float:
    """Return the F1 of the words that answer and reference share, in [0, 1], of the best of the references.

    Of an answer that normalisation leaves no word of, such as "The", it is 1 beside another such and else 0.
    """
    words = Counter(normalised_words(given))
    return max(_f1(words, Counter(normalised_words(reference))) for reference in references)


def _f1(given: Counter[str], reference: Counter[str]) -> float:
    if not given or not reference:
        return float(given == reference)
    # The harmonic mean of shared / given and shared / reference.
    return 2 * (given & reference).total() / (given.total() + reference.total())

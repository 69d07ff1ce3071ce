import csv
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from samples.agreement import grammar

FOLDER = Path(grammar.__file__).parent
SPLITS = ("train", "validation")


def rows(split: str) -> list[dict[str, str]]:
    with (FOLDER / f"{split}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence.lower())


def nouns(split: str) -> set[str]:
    lexicon = grammar.LEXICONS[split]
    return {*lexicon.people, *lexicon.places, *lexicon.objects}


def minimal_pairs(split: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    table = rows(split)
    return list(zip(table[::2], table[1::2], strict=True))


def main_verbs(split: str) -> list[tuple[str, str]]:
    """Return the word in which each pair differs: its right and its wrong form."""
    verbs = []
    for right, wrong in minimal_pairs(split):
        couples = zip(words(right["sentence"]), words(wrong["sentence"]), strict=True)
        verbs.append(next(couple for couple in couples if couple[0] != couple[1]))
    return verbs


@pytest.mark.parametrize("split", SPLITS)
def test_grammar_writes_files_byte_for_byte(split):
    assert "".join(grammar.lines(split)).encode() == (FOLDER / f"{split}.tsv").read_bytes()


@pytest.mark.parametrize(("split", "count"), [("train", 2000), ("validation", 600)])
def test_files_have_documented_sizes_and_unique_sentences(split, count):
    sentences = [row["sentence"] for row in rows(split)]
    assert len(sentences) == len(set(sentences)) == count
    assert {len(sentence.split()) for sentence in sentences} <= set(range(6, 15))


@pytest.mark.parametrize("split", SPLITS)
def test_minimal_pairs_differ_in_one_word_and_are_balanced(split):
    for right, wrong in minimal_pairs(split):
        assert (right["label"], wrong["label"]) == ("1", "0")
        assert right["construction"] == wrong["construction"]
        couples = zip(right["sentence"].split(), wrong["sentence"].split(), strict=True)
        assert sum(a != b for a, b in couples) == 1, right["sentence"]
    counts = Counter((row["construction"], row["label"]) for row in rows(split))
    constructions = {construction for construction, _ in counts}
    assert constructions == set(grammar.LEXICONS[split].pairs)
    for construction in constructions:
        assert counts[construction, "0"] == counts[construction, "1"]
    assert {row["construction"]: row["subject"] for row in rows(split)} == grammar.SUBJECTS
    assert {row["subject"] for row in rows(split)} == {"plain", "prepositional", "relative", "coordinated"}


@pytest.mark.parametrize(("split", "count"), [("train", 336), ("validation", 150)])
def test_plural_subjects_have_documented_share(split, count):
    lexicon = grammar.LEXICONS[split]
    actions = {*lexicon.person_actions, *lexicon.object_actions}
    assert sum(right == "are" or right in actions for right, _ in main_verbs(split)) == count


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_attractors_match_their_subject(split):
    plural_nouns = {grammar.inflect(noun) for noun in nouns(split)}
    matches = defaultdict(list)
    for (right, _), (verb, wrong) in zip(minimal_pairs(split), main_verbs(split), strict=True):
        subject = words(right["sentence"])
        subject = subject[: len(subject) - subject[::-1].index(verb) - 1]
        attractor = [word for word in subject if word in plural_nouns | nouns(split)][-1]
        plural = verb == "are" or wrong == grammar.inflect(verb)
        matches[right["construction"]].append((attractor in plural_nouns) == plural)
    assert all(matches.pop("plain"))
    assert all(sum(flags) * 2 == len(flags) for flags in matches.values())
    function_words = {"the", "that", "and", *grammar.SINGULAR_DETERMINERS, *grammar.PLURAL_DETERMINERS}
    function_words |= {*grammar.ADJECTIVES, *grammar.ADVERBS, *" ".join(grammar.NEARBY).split()}
    function_words |= {*grammar.LEXICONS[split].objects.values()}
    for (right, _), (verb, _) in zip(minimal_pairs(split), main_verbs(split), strict=True):
        sentence = words(right["sentence"])
        subject = sentence[: len(sentence) - sentence[::-1].index(verb) - 1]
        assert set(subject) <= function_words | grammar.LEXICONS[split].forms(), right["sentence"]


def test_validation_shares_no_noun_or_verb_with_train():
    train_words = {word for row in rows("train") for word in words(row["sentence"])}
    assert train_words.isdisjoint(grammar.LEXICONS["validation"].forms())
    forms = {form for couple in main_verbs("validation") for form in couple}
    assert train_words & forms == {"is", "are"}

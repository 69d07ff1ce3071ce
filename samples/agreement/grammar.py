"""Write the agreement sample: acceptable and unacceptable English sentences, made by a small grammar.

In English the verb of a clause agrees in number with the head of its subject. A noun between the two, an *attractor*,
misleads people and models alike when its number is the other one: "The keys to the cabinet are on the table" is right,
"The keys to the cabinet is on the table" is wrong although "the cabinet is" looks well. A *minimal pair* is such a
sentence twice: with the right form of its main verb, labelled 1, and with the other form, labelled 0. Nothing else
differs, so only the relation between subject and verb tells the two apart.

Half of the pairs in training and a third of those in validation are plain clauses. In the others the attractor stands
in a prepositional phrase, in the second of two, in a relative clause as its object or its subject, or at the end of
joined nouns. Joined nouns make a plural subject, but not when they are the subject of a relative clause. Some
determiners show the number of their noun; "the" does not.

In every construction with an attractor, half of the attractors match the subject in number. In validation half of the
subjects are plural, so that the form of the verb alone does not give the label away. In training two thirds are
singular, as in ordinary text: a model first learns to favour singular verbs, which does not help it in validation, and
finds agreement from there much sooner than without such a foothold. Words with which the wrong sentence could be right
are left out: verbs whose past looks like their base ("put", "read"), nouns with one form for both numbers ("sheep"),
and "each" and "every", which make joined nouns singular.

The two files share function words, "be", adverbs, adjectives and some of the words after the main verb. They share no
noun that stands before the main verb, no verb of a relative clause and no main verb except "be", in either form. Other
verbs than "be" are the harder part: few of the main verbs in training, a third of those in validation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")

SEED = 2024
WORDS = range(6, 15)

IRREGULAR = {"child": "children", "man": "men", "woman": "women"}
SINGULAR_DETERMINERS = ("this", "another", "one")
PLURAL_DETERMINERS = ("these", "several", "two")
ADJECTIVES = ("old", "new", "strange", "famous", "beautiful")
ADVERBS = ("always", "often", "rarely", "still", "usually")
NEARBY = ("near", "behind", "beside", "next to")
PERSON_STATES = (
    "at home this evening", "late for the meeting", "ready for the journey", "very tired today", "proud of the result",
    "happy about the news", "on the last train", "afraid of the dark", "busy this week", "in the next room",
)  # fmt: skip
OBJECT_STATES = (
    "on the kitchen table", "in the main hall", "hard to find", "out of date", "covered in dust",
    "ready for collection", "worth a lot of money", "in very good order", "not for sale", "too big for the shelf",
)  # fmt: skip


@dataclass(frozen=True)
class Lexicon:
    """The words and proportions of one file."""

    pairs: dict[str, tuple[int, int]]  # of each construction, with a singular and with a plural subject
    be: float  # the share of "be" among the main verbs
    people: tuple[str, ...]
    places: tuple[str, ...]
    objects: dict[str, str]  # each with the preposition that leads to a place
    relations: tuple[str, ...]  # verbs of the relative clauses, between people
    person_actions: dict[str, str]  # main verbs with what follows them
    object_actions: dict[str, str]

    def forms(self) -> set[str]:
        """Return every noun and verb of its own in both forms."""
        nouns = (*self.people, *self.places, *self.objects)
        verbs = (*self.relations, *self.person_actions, *self.object_actions)
        return {form for word in nouns + verbs for form in (word, inflect(word))}


LEXICONS = {
    "train": Lexicon(
        pairs={
            "plain": (330, 166), "prepositional": (134, 66), "nested_prepositional": (32, 16),
            "subject_relative": (54, 26), "object_relative": (54, 26), "coordinated_subject": (0, 36),
            "coordinated_relative": (60, 0),
        },
        be=0.97,
        people=(
            "actor", "artist", "author", "baker", "boy", "cleaner", "dancer", "dentist", "driver", "engineer", "farmer",
            "friend", "gardener", "king", "lawyer", "man", "manager", "minister", "musician", "neighbour", "officer",
            "painter", "poet", "priest", "prisoner", "professor", "sailor", "secretary", "singer", "soldier", "student",
            "teacher", "tourist", "uncle", "waiter", "woman",
        ),
        places=(
            "apartment", "bank", "bathroom", "cabinet", "castle", "church", "cottage", "drawer", "factory", "garage",
            "garden", "hospital", "house", "library", "museum", "office", "palace", "school", "shop", "theatre",
        ),
        objects={
            "article": "about", "bill": "from", "book": "about", "chair": "from", "curtain": "from", "key": "to",
            "lamp": "from", "letter": "from", "map": "of", "message": "from", "painting": "of", "parcel": "from",
            "photograph": "of", "sign": "for", "story": "about", "ticket": "for",
        },
        relations=(
            "admire", "avoid", "blame", "call", "choose", "envy", "fear", "follow", "forgive", "hate", "invite", "like",
            "meet", "pay", "remember", "respect", "thank", "trust", "visit", "watch",
        ),
        person_actions={
            "arrive": "before noon", "clean": "the stairs", "complain": "about the noise", "drink": "too much coffee",
            "drive": "to work", "eat": "in silence", "enjoy": "the music", "fly": "to Paris", "laugh": "at everything",
            "listen": "to the radio", "live": "in the village", "play": "chess", "sleep": "on the floor",
            "smile": "at the camera", "speak": "three languages", "swim": "in the lake", "travel": "by boat",
            "wait": "outside", "walk": "in the rain", "work": "without a break",
        },
        object_actions={
            "appear": "in the catalogue", "belong": "to the city", "cause": "a lot of trouble", "change": "every year",
            "contain": "a surprise", "look": "rather dull", "need": "repair", "please": "everyone",
            "show": "some damage", "vanish": "without a trace",
        },
    ),
    "validation": Lexicon(
        pairs={
            "plain": (54, 54), "prepositional": (24, 24), "nested_prepositional": (8, 8), "subject_relative": (18, 18),
            "object_relative": (18, 18), "coordinated_subject": (0, 28), "coordinated_relative": (28, 0),
        },
        be=0.7,
        people=(
            "architect", "banker", "butcher", "carpenter", "child", "doctor", "editor", "girl", "hunter", "journalist",
            "mayor", "pilgrim", "plumber", "queen", "scientist", "tailor", "writer",
        ),
        places=("barn", "bedroom", "cave", "cellar", "embassy", "farm", "prison", "stadium", "tower", "warehouse"),
        objects={
            "brochure": "about", "carpet": "from", "drawing": "of", "film": "about", "invoice": "from",
            "ladder": "from", "permit": "for", "report": "about",
        },
        relations=("accuse", "annoy", "defend", "help", "know", "love", "obey", "praise", "support"),
        person_actions={
            "cry": "in the dark", "dream": "of the sea", "jump": "over the fence", "learn": "French",
            "run": "every day", "shout": "at the referee", "sing": "in the choir", "stay": "for dinner",
            "think": "about money", "win": "a prize",
        },
        object_actions={
            "attract": "attention", "bring": "good luck", "impress": "everyone", "remain": "a mystery",
            "seem": "rather boring",
        },
    ),
}  # fmt: skip


class Subject(NamedTuple):
    """The subject of a sentence: all that stands before the main verb."""

    words: str
    plural: bool
    personal: bool


class Pair(NamedTuple):
    """A minimal pair."""

    acceptable: str
    unacceptable: str
    construction: str


def inflect(word: str) -> str:
    """Return the plural of a noun or the third person singular of a verb: English spells both alike."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def verb(word: str, plural: bool) -> str:
    """Return a verb in the given number: with verbs it is the singular that has the ending."""
    if word == "be":
        return "are" if plural else "is"
    return word if plural else inflect(word)


def shuffled(items: Iterable[T], random: Random) -> list[T]:
    """Return the items in random order, by `Random.random` alone: only that is the same in every version of Python."""
    return sorted(items, key=lambda _: random.random())


class Draft:
    """One sentence in the making, in which no noun occurs twice.

    The methods named after a construction take the numbers of the subject and of the last noun before the main verb.
    """

    def __init__(self, lexicon: Lexicon, random: Random) -> None:
        self.lexicon = lexicon
        self.random = random
        self.people = iter(shuffled(lexicon.people, random))
        self.places = iter(shuffled(lexicon.places, random))
        self.objects = iter(shuffled(lexicon.objects, random))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random.random() < probability

    def pick(self, words: Sequence[str]) -> str:
        """Return one of the words."""
        return words[int(self.random.random() * len(words))]

    def phrase(self, noun: str, plural: bool) -> str:
        """Return a noun with its determiner and sometimes an adjective."""
        marked = PLURAL_DETERMINERS if plural else SINGULAR_DETERMINERS
        determiner = self.pick(marked) if self.chance(0.7) else "the"
        adjective = f" {self.pick(ADJECTIVES)}" if self.chance(0.05) else ""
        return f"{determiner}{adjective} {inflect(noun) if plural else noun}"

    def person(self, plural: bool) -> str:
        """Return a phrase for people."""
        return self.phrase(next(self.people), plural)

    def place(self, plural: bool) -> str:
        """Return a phrase for places."""
        return self.phrase(next(self.places), plural)

    def relation(self, plural: bool) -> str:
        """Return the verb of a relative clause."""
        return verb(self.pick(self.lexicon.relations), plural)

    def plain(self, plural: bool, _: bool) -> Subject:
        """Return a subject without attractor, such as "the keys"."""
        personal = self.chance(0.5)
        return Subject(self.phrase(next(self.people if personal else self.objects), plural), plural, personal)

    def prepositional(self, plural: bool, last: bool) -> Subject:
        """Return a subject such as "the keys to the cabinet" or "the poet near the schools"."""
        personal = self.chance(0.5)
        noun = next(self.people if personal else self.objects)
        preposition = self.pick(NEARBY) if personal else self.lexicon.objects[noun]
        return Subject(f"{self.phrase(noun, plural)} {preposition} {self.place(last)}", plural, personal)

    def nested_prepositional(self, plural: bool, last: bool) -> Subject:
        """Return a subject such as "the keys to the cabinets near the garden"."""
        inner = self.prepositional(plural, self.chance(0.5))
        return inner._replace(words=f"{inner.words} {self.pick(NEARBY)} {self.place(last)}")

    def subject_relative(self, plural: bool, last: bool) -> Subject:
        """Return a subject such as "the poet that admires the farmers"."""
        words = f"{self.person(plural)} that {self.relation(plural)} {self.person(last)}"
        return Subject(words, plural, personal=True)

    def object_relative(self, plural: bool, last: bool) -> Subject:
        """Return a subject such as "the poet that the farmers admire"."""
        words = f"{self.person(plural)} that {self.person(last)} {self.relation(last)}"
        return Subject(words, plural, personal=True)

    def coordinated_subject(self, _: bool, last: bool) -> Subject:
        """Return a subject such as "the poets and the farmer", plural whatever its parts are."""
        personal = self.chance(0.5)
        nouns = self.people if personal else self.objects
        words = f"{self.phrase(next(nouns), self.chance(0.5))} and {self.phrase(next(nouns), last)}"
        return Subject(words, plural=True, personal=personal)

    def coordinated_relative(self, plural: bool, last: bool) -> Subject:
        """Return a subject such as "the poet that the farmers and the king admire"."""
        joined = f"{self.person(self.chance(0.5))} and {self.person(last)}"
        return Subject(f"{self.person(plural)} that {joined} {self.relation(True)}", plural, personal=True)

    def pair(self, construction: str, plural: bool, last: bool, be: bool) -> Pair:
        """Complete the sentence and return it with its unacceptable twin."""
        subject: Subject = getattr(self, construction)(plural, last)
        adverb = f"{self.pick(ADVERBS)} " if self.chance(0.05) else ""
        if be:
            word, rest = "be", f"{{}} {adverb}{self.pick(PERSON_STATES if subject.personal else OBJECT_STATES)}"
        else:
            actions = self.lexicon.person_actions if subject.personal else self.lexicon.object_actions
            word = self.pick(tuple(actions))
            rest = f"{adverb}{{}} {actions[word]}"
        frame = f"{subject.words[0].upper()}{subject.words[1:]} {rest}."
        right, wrong = verb(word, subject.plural), verb(word, not subject.plural)
        return Pair(frame.format(right), frame.format(wrong), construction)


SUBJECTS = {
    "plain": "plain",
    "prepositional": "prepositional",
    "nested_prepositional": "prepositional",
    "subject_relative": "relative",
    "object_relative": "relative",
    "coordinated_relative": "relative",
    "coordinated_subject": "coordinated",
}
"""The kind of subject that each construction has: what a model learns within some thirty steps."""


def pairs(split: str) -> list[Pair]:
    """Return the minimal pairs of a file in random order, no two alike."""
    lexicon, random = LEXICONS[split], Random(f"{SEED} {split}")  # noqa: S311 (sentences, no secrets)
    found: dict[str, Pair] = {}
    for construction, (singular, plural) in lexicon.pairs.items():
        for index in range(singular + plural):
            be = random.random() < lexicon.be
            last = index % 2 == 1
            pair = Draft(lexicon, random).pair(construction, index >= singular, last, be)
            while len(pair.acceptable.split()) not in WORDS or pair.acceptable in found:
                pair = Draft(lexicon, random).pair(construction, index >= singular, last, be)
            found[pair.acceptable] = pair
    return shuffled(found.values(), random)


def lines(split: str) -> Iterator[str]:
    """Yield the lines of a file: a header, then two for each pair, the acceptable sentence first."""
    yield "sentence\tlabel\tconstruction\tsubject\n"
    for pair in pairs(split):
        told = f"{pair.construction}\t{SUBJECTS[pair.construction]}"
        yield f"{pair.acceptable}\t1\t{told}\n"
        yield f"{pair.unacceptable}\t0\t{told}\n"


def main() -> None:
    """Write both files beside this module."""
    for split in LEXICONS:
        Path(__file__).with_name(f"{split}.tsv").write_text("".join(lines(split)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

"""Other words for the same: synonyms, and new identities for old ones."""

from __future__ import annotations

import re
from functools import cache

from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.entities import FAMILY, GIVEN, STREET_KINDS, STREETS, words

# Each line holds words that may stand for one another wherever one of them stands.
_SYNONYMS = """
also | as well | too
regarding | concerning | with regard to
annoying | irritating | bothersome
answer | reply
anything else | something else
apologise | am sorry
ask for | request
at once | straight away | immediately | right away
awful | terrible | dreadful
bad | poor | unpleasant
begin | start
big | large
box | package | carton
brought | delivered
bought | purchased
buy | purchase
calm | relaxed
can not | cannot
check | look into | look at | verify
clearly | obviously | plainly
contacted | got in touch with | reached out to
could you | can you | would you
customer service | customer support | support
details | particulars
did not | didn't
difficult | hard | tricky
do not | don't
does not | doesn't
easy | simple
every time | each time | whenever
excellent | outstanding | superb
fast | quick | rapid
fine | okay | all right
fix | sort out | resolve
frequently | often | regularly
get back to me | come back to me | answer me
good | decent | nice
great | wonderful | fantastic
happy | pleased | glad
has not | hasn't
have not | haven't
hello | hi | good day
however | nevertheless | even so
huge | enormous | massive
I am | I'm
I have | I've
I will | I'll
I would | I'd
important | essential
in the end | finally | eventually
inform | tell | notify
is not | isn't
issue | problem
it is | it's
job | task
last week | a week ago | the other week
less than | under | below
let me | allow me to
maybe | perhaps | possibly
many | several | numerous
mistake | error
more than | over | upwards of
moreover | in addition | besides
must | have to | need to
my account | my profile
need | require
never | at no point
next week | in the coming week
no longer | not any more
now | at the moment | currently
ordered | placed an order for
parcel | shipment | delivery
people | persons | folks
please | kindly
problem | difficulty | trouble
quite | rather | fairly
really | truly | honestly
recently | lately | not long ago
said | stated | mentioned
send | ship | dispatch
sent | shipped | dispatched
should | ought to
show | indicate
small | little | minor
so far | until now | up to now
sometimes | now and then | at times
soon | shortly | before long
staff | team | employees
suddenly | all of a sudden
surprised | astonished
thank you | thanks | many thanks
that is | that's
the whole | the entire | all of the
therefore | for that reason | that is why
they are | they're
tried | attempted
try | attempt
tell me | let me know
today | this very day
told | informed
use | make use of
usually | normally | as a rule
very | really | extremely
want | would like
was not | wasn't
we are | we're
we will | we'll
were not | weren't
whole | entire | complete
will not | won't
wrong | incorrect
you are | you're
""".strip()

_BEFORE = ("Well, ", "So, ", "Also, ", "Just to say, ", "As I said, ", "To be clear, ")
# Words that are written small inside a sentence; any other first word may be a name.
_SMALL = frozenset(
    words(
        """a after all an and any are as at before but by can could did do does every for from had
        has have he her here his how if in is it its last let logged my no not now of on once one
        our please she so some still thank thanks that the their then there these they this to was
        we what when where which who why will with would yes you your"""
    )
)

_GOES_ON = re.compile(r" [a-z]")
_CODE = re.compile(r"\+?\d(?:[\d -]*\d)?[A-Z]?\b")
_DATE = re.compile(r"(?:19|20)\d\d-\d\d(?:-\d\d)?$|\d\d?-\d\d?-(?:19|20)\d\d$")
_STREET = re.compile(
    rf"\b\d{{1,4}} (?P<street>[A-Z][a-z]+) (?:{'|'.join(STREET_KINDS)})\b"
)  # fmt: skip
_GIVEN = "|".join(GIVEN)
_NAME = re.compile(
    rf"\b(?P<given>{_GIVEN}) (?P<family>[A-Z][a-z]+)\b"
    r"|(?:\b[Nn]ame is|\b[Nn]ame of|\bI am|\bI'm|\b[Tt]his is|\b[Uu]nder|\b(?:Mr|Mrs|Ms|Dr)\.?) "
    r"(?P<cued_given>[A-Z][a-z]+) (?P<cued_family>[A-Z][a-z]+)\b"
    rf"|\b(?P<alone>{_GIVEN})\b"
)
_FEW_DIGITS = 4


def reword(text: str, dice: Dice, *, rate: float) -> str:
    """`text` with a share `rate` of the words that have synonyms replaced by one of them."""

    def other(found: re.Match[str]) -> str:
        if not dice.chance(rate):
            return found.group()
        word = found.group()
        # `text` begins a sentence or continues one: keep the capital where there is one.
        new = dice.pick(_others()[word.lower()])
        if "'" in new and not _GOES_ON.match(found.string, found.end()):
            return word  # "here you are." has no short form
        return new[0].upper() + new[1:] if word[0].isupper() and word != "I" else new

    return _synonym_pattern().sub(other, text)


def introduce(text: str, dice: Dice) -> str:
    """`text` after a word or two that change nothing."""
    first = re.match(r"\w+", text)
    may_be_small = first is not None and first.group().lower() in _SMALL
    return dice.pick(_BEFORE) + (text[0].lower() + text[1:] if may_be_small else text)


class Disguise:
    """New names, numbers and streets for those of a text; the same one always becomes the same."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._names: dict[str, str] = {}
        self._codes: dict[str, str] = {}

    def apply(self, text: str) -> str:
        """`text` with other identities of the same form."""
        text = _STREET.sub(self._street, text)
        text = _CODE.sub(self._code, text)
        return _NAME.sub(self._name, text)

    def _street(self, found: re.Match[str]) -> str:
        return found.group().replace(found["street"], self._dice.pick(STREETS))

    def _name(self, found: re.Match[str]) -> str:
        text = found.group()
        for group, names in (
            ("given", GIVEN), ("cued_given", GIVEN), ("alone", GIVEN),
            ("family", FAMILY), ("cued_family", FAMILY),
        ):  # fmt: skip
            if old := found[group]:
                if old not in self._names:
                    self._names[old] = self._dice.pick(names)
                text = re.sub(rf"\b{old}\b", self._names[old], text)
        return text

    def _code(self, found: re.Match[str]) -> str:
        old = found.group()
        if found.string[found.start() - 1 : found.start()].isalpha() and len(old) < _FEW_DIGITS:
            return old  # P4, A380
        if _DATE.match(old) or sum(c.isdigit() for c in old) < _FEW_DIGITS:
            return self._number(old)
        if old not in self._codes:
            # A telephone number keeps its prefix, or it would not look like one.
            kept = 7 if old.startswith(("0", "+", "555")) else 0
            self._codes[old] = old[:kept] + "".join(map(self._symbol, old[kept:]))
        return self._codes[old]

    def _symbol(self, symbol: str) -> str:
        if symbol.isdigit():
            return str(self._dice.between(symbol != "0", 9))
        return chr(ord("A") + self._dice.below(26)) if symbol.isupper() else symbol

    def _number(self, old: str) -> str:
        """A small number may become one near it; one digit stays one digit."""
        if not old.isdigit() or not self._dice.chance(0.5):
            return old
        number = int(old)
        if number < 2:
            return old
        near = self._dice.between(max(2, number - number // 3), number + number // 3 + 1)
        return str(min(near, 10 ** len(old) - 1))


@cache
def _others() -> dict[str, tuple[str, ...]]:
    others: dict[str, tuple[str, ...]] = {}
    for line in _SYNONYMS.splitlines():
        group = tuple(word.strip() for word in line.split("|"))
        for word in group:
            known = others.get(word.lower(), ())
            others[word.lower()] = known + tuple(w for w in group if w != word and w not in known)
    return others


@cache
def _synonym_pattern() -> re.Pattern[str]:
    longest_first = sorted(_others(), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

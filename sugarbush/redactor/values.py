"""Invents values for the redactor's training texts: names, addresses, numbers of many countries.

The values come from Faker's locales and from formats of our own. No labelled data set is
used.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from sugarbush.examples.data_files import items, load_yaml, words
from sugarbush.examples.grammar import Slot, mark
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.randomness import seed_of

NAME, ADDRESS, PHONE, EMAIL, NUMBER = "NAME", "ADDRESS", "PHONE", "EMAIL", "NUMBER"
PLACE, ORGANIZATION = "PLACE", "ORGANIZATION"
SECRET_KINDS = (NAME, ADDRESS, PHONE, EMAIL, NUMBER)
# With the last two kinds, the redactor learns what not to mask.
KINDS = (*SECRET_KINDS, PLACE, ORGANIZATION)

_YAML = load_yaml(Path(__file__).with_name("values.yaml"))
LISTS = {name: items(entries) for name, entries in _YAML.items()}
LOCALES, CHECKED_LOCALES = LISTS["locales"], LISTS["checked_locales"]
_POOL = 200
# Faker draws these from sets, so the order varies, or from birth dates, which depend on the day.
_UNSTABLE = {("it_IT", "city"), ("uk_UA", "ssn")}
_UNSTABLE |= {(locale, "ssn") for locale in LISTS["birth_in_ssn"]}

_PREFIXES = (
    "", "", "", "", "#", "No. ", "ID", "ORD-", "INV-", "CASE-", "TKT", "REF ", "PO-", "MRN-", "#",
)  # fmt: skip
_WEEKDAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_MONTHS = words(
    "January February March April May June July August September October November December"
)
_Makers = tuple[Callable[[], str], ...]


class SlotValues:
    """The values for the slots of carriers, for one text of one locale.

    `plain` are ordinary sentences. With `spoken`, many digits are spelled out.
    """

    def __init__(
        self, rng: SeededRandom, locale: str, *, plain: Sequence[str], spoken: bool
    ) -> None:
        self._rng, self._locale, self._plain, self._spoken = rng, locale, plain, spoken
        self._language = rng.choice(LISTS["languages"])

    def slots(self) -> dict[str, Slot]:
        """Return each slot by name. Every use of a slot gives another value."""
        rng, said = self._rng, self._said
        by_kind: dict[str, dict[str, Callable[[], str]]] = {
            NAME: {
                "name": self.name, "full": self.full_name, "first": self._first,
                "last": self._last, "sender": self.name, "handle": self.handle,
                "titled": lambda: f"{rng.choice(LISTS['titles'])} {self._last()}",
                "handle0": lambda: self.handle().lstrip("@"), "first0": self._first,
                "spelled": self.spelled,
            },
            ADDRESS: {
                "address": self.address, "street": self.street, "postcode": self.postcode,
                "homecity": self._city, "house": lambda: str(rng.between(1, 240)),
            },
            PHONE: {"phone": self.phone},
            EMAIL: {"email": self.email},
            NUMBER: {
                "id": self.identifier, "order": self.identifier, "account": self.identifier,
                "card": self.card, "iban": self.iban, "ssn": self.ssn, "plate": self.plate,
                "pin": lambda: said(self._form("####", "######", "####", "###")),
                "last4": lambda: said(self._form("####")), "ip": self.ip,
            },
            PLACE: {"city": self._city, "country": lambda: self._of("country", locale="en_US")},
            ORGANIZATION: {"org": self.organisation},
        }  # fmt: skip
        slots: dict[str, Slot] = {
            slot: self._marked(kind, value)
            for kind, makers in by_kind.items()
            for slot, value in makers.items()
        }
        everything = words("name address phone id card email full first street postcode")
        slots["any"] = lambda: _call(slots[rng.choice(everything)])
        slots["live"] = lambda: _call(slots[rng.choice(("address", "city", "org", "street"))])
        return slots | self._unmarked()

    def _unmarked(self) -> dict[str, Slot]:
        rng = self._rng
        return {
            "url": lambda: (
                f"https://{rng.choice(('t.co', 'bit.ly', 'www.example.org'))}/{self._form('@#@@#')}"
            ),
            "date": self.date,
            "time": lambda: rng.choice((
                f"{rng.between(0, 23)}:{rng.below(60):02}",
                f"{rng.between(1, 12)} {rng.choice(('am', 'pm', 'a.m.'))}", "noon",
            )),
            "weekday": lambda: rng.choice(_WEEKDAYS),
            "month": lambda: rng.choice(
                ("January", "March", "April", "May", "June", "August", "October", "Dec.", "Nov")
            ),
            "year": lambda: str(rng.between(1900, 2030)),
            "age": lambda: str(rng.between(1, 99)),
            "price": lambda: rng.choice(
                ("${}", "{} EUR", "£{}", "{} pounds", "€ {}", "{} dollars", "Rs. {}")
            ).format(rng.choice((
                f"{rng.below(900)}.{rng.below(100):02}", str(rng.between(1, 9000)),
                f"{rng.between(1, 99)},{rng.below(1000):03}",
            ))),
            "percent": lambda: f"{rng.between(1, 100)}%",
            "count": lambda: self._said(
                str(rng.choice((rng.between(1, 12), rng.between(1, 90), rng.between(1, 400))))
            ),
            "count3": lambda: str(rng.between(100, 599)),
            "decimal": lambda: f"{rng.between(0, 99)}.{rng.below(10)}",
            "bp": lambda: f"{rng.between(90, 180)}/{rng.between(50, 110)}",
            "dose": lambda: f"{rng.choice((5, 10, 20, 50, 81, 100, 500))} mg",
            "version": lambda: f"{rng.below(12)}.{rng.below(30)}.{rng.below(9)}",
            "letter": lambda: rng.choice("ABCDEF"),
            "model": lambda: rng.choice(
                ("X-{}", "{} Pro", "{}S", "GT{}", "MK{}", "Series {}", "{}", "A{}")
            ).format(rng.between(1, 999)),
            "brand": lambda: rng.choice(LISTS["brands"]),
            "product": lambda: rng.choice(LISTS["products"]),
            "color": lambda: rng.choice(LISTS["colours"]),
            "illness": lambda: rng.choice(LISTS["illnesses"]),
            "drug": lambda: rng.choice(LISTS["drugs"]),
            "him": lambda: rng.choice(("him", "her")),
            "person_word": lambda: rng.choice(LISTS["people"]),
            "job": lambda: self._of("job", locale="en_US").split(",")[0],
            "hash": lambda: self._word() + rng.choice(("", "2016", self._word())),
            "word": self._word,
            "words": lambda: " ".join(self._word() for _ in range(rng.between(1, 3))),
            "Words": lambda: " ".join(self._word().capitalize() for _ in range(rng.between(1, 4))),
            "plain": lambda: _lower_first(rng.choice(self._plain)),
            "Plain": lambda: rng.choice(self._plain),
            "foreign": lambda: _lower_first(self._filler()),
            "Foreign": self._filler,
        }  # fmt: skip

    def name(self) -> str:
        rng, first, last = self._rng, self._first(), self._last()
        kind = rng.below(24)
        if kind < 8:
            return f"{first} {last}"
        if kind < 11:
            return first
        if kind == 11:
            return last
        middle, title = self._first(), rng.choice(LISTS["titles"])
        return (
            f"{last}, {first}", f"{first[0]}. {last}", f"{first} {middle[0]}. {last}",
            f"{first[0]}.{middle[0]}. {last}", f"{title} {last}", f"{title} {first} {last}",
            f"{first} {middle} {last}", f"{first} {last}-{self._last()}",
            f"{first[0]} {middle[0]} {last}", f"{title} {first[0]}. {last}",
            f"{first} {last} {rng.choice(LISTS['suffixes'])}".replace(" ,", ","), self.full_name(),
        )[kind - 12]  # fmt: skip

    def full_name(self) -> str:
        joint = self._rng.choice(
            (" ",) * 12 + (" van der ", " de ", " bin ", " von ", " al-", " O'", " Mc")
        )
        return f"{self._first()}{joint}{self._last()}"

    def spelled(self) -> str:
        return self._rng.choice(("-", " ", " - ", ". ")).join(
            self._rng.choice((self._first, self._last))()
        )

    def handle(self) -> str:
        rng = self._rng
        first, last = (re.sub(r"\W", "", name) or "user" for name in (self._first(), self._last()))
        tail = rng.choice(
            ("", "", str(rng.below(100)), str(rng.between(1950, 2010)), "_", "xx", "Official")
        )
        core = rng.choice((
            first + last, f"{first}_{last}", f"{first[0]}{last}", f"{first}.{last}",
            f"Real{first}", last + self._word(),
        ))  # fmt: skip
        return rng.choice(("", "@")) + rng.choice((core, core.lower())) + tail

    def address(self) -> str:
        rng, kind = self._rng, self._rng.below(10)
        if kind < 3:
            return self._lines(self._of("address"))
        street = self.street()
        if kind < 5:
            return street
        joint = rng.choice((", ", ", ", "\n", " ", " , ", ",\n"))
        inside = self._inside()
        flat = f"{inside}{joint}" if inside and rng.chance(0.5) else ""
        if inside and not flat:
            street += rng.choice((", ", " ", " - ")) + inside
        pieces = rng.choice((
            (street, self._city()),
            (street, self._city(), self.postcode()),
            (street, self.postcode()),
            (street, f"{self.postcode()} {self._city()}"),
            (street, f"{self._city()} {self.postcode()}"),
            (street, self._city(), self._of("country", locale="en_US")),
            (street, self._city(), self._of("state", locale="en_US"), self.postcode()),
            (street, f"{self._city()} {self._of('state_abbr', locale='en_US')} {self.postcode()}"),
            (street, f"{rng.choice(LISTS['near'])}"),
            (street, rng.choice(LISTS["near"]), self._city()),
            (f"{rng.choice(('P.O. Box ', 'PO Box ', 'Postfach '))}{rng.between(1, 9999)}",
             self._city()),
        ))  # fmt: skip
        return flat + joint.join(pieces)

    def _inside(self) -> str:
        """Return a part of a building or its name. The result is often empty."""
        if self._rng.chance(0.45):
            return ""
        form = self._rng.choice(LISTS["inside_forms"]).replace(
            "{}", self._rng.choice((self._last, self._capitalised))()
        )
        return self._form(form.replace("&", "#" * self._rng.between(1, 3))).replace("~", "#")

    def street(self) -> str:
        rng = self._rng
        if rng.chance(0.4):
            return self._lines(self._of("street_address"))
        if rng.chance(0.08):
            return self._form(*LISTS["numbered_forms"])
        names: _Makers = (self._last, self._city, self._first, self._capitalised)
        base = rng.choice(names)()
        if rng.chance(0.3):
            side = ("North", "South", "West", "Old", "New", "Saint", "Upper", "St.")
            base = f"{rng.choice(side)} {base}"
        road = (
            self._of("street_name") if rng.chance(0.3) else f"{base} {rng.choice(LISTS['streets'])}"
        )
        number = self._said(rng.choice((
            str(rng.between(1, 99)), str(rng.between(1, 99999)),
            f"{rng.between(1, 99)}{rng.choice('abcABC')}",
            f"{rng.between(1, 60)}-{rng.between(61, 120)}",
            f"{rng.between(1, 60)} - {rng.between(61, 120)}",
        )))  # fmt: skip
        return rng.choice((
            *(f"{number} {road}",) * 6, f"{number}, {road}", f"{road} {number}", f"{road} {number}",
            road, road, rng.choice(LISTS["near"]),
        ))  # fmt: skip

    def postcode(self) -> str:
        if self._rng.chance(0.4):
            return self._of("postcode")
        code = self._form(*LISTS["postcode_forms"])
        return code.replace(" ", "") if self._rng.chance(0.15) else code

    def phone(self) -> str:
        rng = self._rng
        number = self._of("phone_number") if rng.chance(0.35) else self._form(*LISTS["phone_forms"])
        return self._said(number)

    def email(self) -> str:
        rng = self._rng
        user = re.sub(r"[^\w.+-]", "", self.handle().lstrip("@")) or "info"
        domain = rng.choice((
            f"{rng.choice(LISTS['brands'])}.com", "gmail.com", "yahoo.co.uk", "web.de", "mail.ru",
            "example.org", f"{self._word()}.{rng.choice(('net', 'io', 'fr', 'edu'))}",
        )).lower()  # fmt: skip
        if self._spoken or rng.chance(0.05):
            return f"{user} at {domain.replace('.', ' dot ')}".replace("_", " underscore ")
        return f"{user}@{domain}"

    def identifier(self) -> str:
        if self._rng.chance(0.06):
            return self._of("uuid4", locale="en_US")
        code = self._rng.choice(_PREFIXES) + self._form(*LISTS["id_forms"])
        return self._said(code.lower() if self._rng.chance(0.15) else code)

    def card(self) -> str:
        digits = self._of("credit_card_number", locale="en_US")
        space = self._rng.choice(("", "", " ", "-"))
        return self._said(space.join(re.findall("....|.+", digits)))

    def iban(self) -> str:
        code = self._of("iban")
        return " ".join(re.findall("....|.+", code)) if self._rng.chance(0.4) else code

    def ssn(self) -> str:
        if self._rng.chance(0.5):
            return self._said(self._of("ssn"))
        return self._said(self._form(
            "###-##-####", "@@######@", "@########", "##/###/###", "### ### ###", "########@",
            "@@@@######@@", "##.##.##-###.##",
        ))  # fmt: skip

    def plate(self) -> str:
        if self._rng.chance(0.5):
            return self._of("license_plate", locale="en_GB")
        return self._form(
            "@@@ ####", "@-@@ ####", "@@-###-@@", "@@## @@@", "#@@@###", "@@ ## @@ ####"
        )

    def ip(self) -> str:
        return self._of("ipv4" if self._rng.chance(0.8) else "ipv6", locale="en_US")

    def date(self) -> str:
        rng = self._rng
        day, month, year = rng.between(1, 28), rng.between(1, 12), rng.between(1940, 2030)
        name = _MONTHS[month - 1]
        return rng.choice((
            f"{day}/{month}/{year}", f"{year}-{month:02}-{day:02}", f"{day:02}.{month:02}.{year}",
            f"{day} {name} {year}", f"{name} {day}, {year}", f"{name[:3]} {day}", f"the {day}th",
            f"{month}/{day}/{year % 100:02}", f"{day} {name}",
        ))  # fmt: skip

    def organisation(self) -> str:
        rng = self._rng
        names: _Makers = (
            self._last, self._city, lambda: rng.choice(LISTS["brands"]), self._capitalised
        )  # fmt: skip
        base = rng.choice(names)
        if rng.chance(0.3):
            return self._of("company")
        return rng.choice(LISTS["organisations"]).format(base(), base())

    def _first(self) -> str:
        return self._of("first_name")

    def _last(self) -> str:
        return self._of("last_name")

    def _city(self) -> str:
        return self._of("city")

    def _capitalised(self) -> str:
        return self._word().capitalize()

    def _word(self) -> str:
        return self._of("word", locale="en_US")

    def _filler(self) -> str:
        """Return some random words of one language that is not English."""
        return self._of("sentence", locale=self._language).rstrip(".。")

    def _of(self, kind: str, *, locale: str | None = None) -> str:
        return self._rng.choice(pool(locale or self._locale, kind))

    def _form(self, *forms: str) -> str:
        drawn = {
            "#": lambda: str(self._rng.below(10)),
            "@": lambda: chr(ord("A") + self._rng.below(26)),
        }
        return "".join(drawn[c]() if c in drawn else c for c in self._rng.choice(forms))

    def _said(self, code: str) -> str:
        """Return `code`. In a spoken text, the digits may be words."""
        if not self._spoken or self._rng.chance(0.25):
            return code
        return spelled_out(code, self._rng)

    def _lines(self, address: str) -> str:
        return address.replace("\n", self._rng.choice((", ", ", ", "\n", " ")))

    def _marked(self, label: str, value: Callable[[], str]) -> Slot:
        return lambda: mark(label, value())


def spelled_out(code: str, rng: SeededRandom) -> str:
    """Write a code as a person says it: digits, alone or in pairs, letters, "dash", "plus"."""
    said: list[str] = []
    index = 0
    oh = rng.choice(("zero", "oh", "o"))
    while index < len(code):
        char = code[index]
        if char.isdigit() and char.isascii():
            if index + 1 < len(code) and code[index + 1] == char and rng.chance(0.6):
                said += ["double", oh if char == "0" else LISTS["digits"][int(char)]]
                index += 1
            elif (
                char in "23456789"
                and re.match(r"[1-9]", code[index + 1 : index + 2])
                and rng.chance(0.15)
            ):
                said += [LISTS["tens"][int(char) - 2], LISTS["digits"][int(code[index + 1])]]
                index += 1
            else:
                said.append(oh if char == "0" else LISTS["digits"][int(char)])
        elif char in "-+./" and rng.chance(0.3):
            said.append({"-": "dash", "+": "plus", ".": "dot", "/": "slash"}[char])
        elif char.isalpha():
            said.append(char)
        index += 1
    return " ".join(said)


@cache
def pool(locale: str, kind: str) -> tuple[str, ...]:
    """Return distinct values of one kind. The values are equal on every machine with this version
    of Faker."""
    if (locale, kind) in _UNSTABLE:
        return pool("en_US", kind)
    fake: Any = _faker(locale)
    fake.seed_instance(seed_of(0, locale, kind) % 2**32)
    try:
        with redirect_stdout(io.StringIO()):  # a provider of Faker prints to stdout
            values = [str(getattr(fake, kind)()) for _ in range(_POOL)]
    except (AttributeError, AssertionError):  # the locale has no values of this kind
        return pool("en_US", kind)
    return tuple(dict.fromkeys(value for value in values if value.strip()))


@cache
def _faker(locale: str) -> Any:
    from faker import Faker  # the extra `redaction`

    return Faker(locale, use_weighting=False)


def _call(slot: Slot) -> str:
    return slot if isinstance(slot, str) else slot()


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

"""Invented people, addresses and numbers. Nobody's data: the lists were made up for this."""

from __future__ import annotations

from dataclasses import dataclass

from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.grammar import mark


def words(text: str) -> tuple[str, ...]:
    """The words of a list that is easier to read as a paragraph."""
    return tuple(text.split())


GIVEN = words(
    """Ada Alba Alden Amos Anouk Ansel Arlo Astrid Basil Beatrix Benno Birgit Bram Bruno Calla
    Carmen Casper Celia Cleo Clive Cora Cyrus Dagny Dario Delia Della Dexter Dora Edda Edgar
    Elio Elke Elsa Emeka Emil Enid Ezra Fabian Farah Faye Felix Fern Fiona Flora Freya Gaspard
    Gemma Gideon Greta Gus Hal Hanna Hattie Hector Hedy Helga Hugo Ibrahim Ida Ines Ingrid Iris
    Ivo Jada Jasper Joan Jonas Jude Juno Kai Kamal Karin Keiko Kenji Kurt Lars Leila Lena Leon
    Lidia Linus Lotte Lucia Lyle Mabel Magnus Maia Malik Marta Mateo Maude Mercy Milo Mina Mira
    Moses Nadia Naomi Nell Nico Nils Nora Odile Olaf Olive Omar Oona Oscar Otis Otto Pablo
    Paloma Pearl Petra Phoebe Pia Quentin Rafe Ramona Renata Rhea Rolf Rosa Ruben Rufus Sabine
    Sana Selma Seth Sigrid Silas Simone Soren Stella Sunil Sven Tamar Tansy Teo Thea Tilda
    Tobias Una Uri Vera Vidal Viola Wanda Wendell Wilma Xenia Yara Yusuf Zelda Zora"""
)
FAMILY = words(
    """Abelard Adair Aldous Amberley Appletree Arkwell Ashdown Astley Bainbrook Balfrey Barrowby
    Beckwith Bellweather Birchall Blackmere Bramwell Brightling Brockhurst Cairnhill Calloway
    Cardew Castellan Chandry Coldwater Copperfield Corrigan Cranmere Dallow Darnley Delacroy
    Denholm Dovecote Drummel Eastlake Eddington Elmhirst Evermont Fairbairn Farrowdale Fenwick
    Fletchley Foxglove Galbraid Garrowby Glendower Goldacre Grantley Greyling Hadlow Halberg
    Harcastle Hartwood Hawksley Hazelrigg Holloway Hollins Ibbotson Inglewood Jessop Kelling
    Kestrel Kirkdale Langmere Larkspur Leachwood Lindqvist Lockridge Lorimer Maddern Marchbank
    Mayhew Merriden Milbourne Monkton Netherby Northgate Oakhurst Okonedo Osterman Palfrey
    Pemberly Penhale Pickwell Quarles Quillon Ravenhall Redmayne Ridley Rooksby Rosewarne
    Saltmarsh Sandoval Seabright Sheldrake Silverlock Stanmere Sternwood Strathearn Swinburn
    Tallis Tamworth Thackley Thistlewood Tiverley Trevanion Underhay Valcourt Vandermeer
    Wainscott Wakefern Westerby Whitlock Windrow Winterbourne Woodrow Wyndale Yarrow Zeller"""
)
STREETS = words(
    """Acorn Alder Anvil Apple Barley Beacon Bellows Birdcage Bramble Brewer Candle Canal Cedar
    Chapel Cherry Clover Cobbler Cooper Dairy Dyer Elder Fallow Ferry Fiddler Garden Granary
    Harbour Hawthorn Heron Hopfield Ivy Juniper Kiln Lantern Larch Lilac Linden Mallow Maple
    Meadow Mill Mint Mulberry Nettle Orchard Otter Paper Pear Poplar Priory Quarry Rookery
    Rosemary Saddler Sailmaker Sorrel Spindle Tanner Thimble Thorn Turnstile Vicarage Walnut
    Weaver Willow"""
)
STREET_KINDS = ("Street", "Road", "Lane", "Row", "Avenue", "Close", "Terrace", "Way", "Drive")
TOWNS = words(
    """Alderwick Ambleford Ashmere Bexcombe Birchester Brackwater Carrowmoor Cinderford
    Coldharbour Copperton Dunmarsh Eastwold Elmsgate Fallowfield Fenmarket Glassbury Greywater
    Harrowden Heathmoor Kingsfold Larkhaven Lowmere Marlbrook Millhaven Netherfield Oakenshaw
    Pennyford Quayside Ravensmoor Redwater Saltburn Silverdale Stonebeck Tarnside Thornbury
    Wexley Whitmere Windlebury"""
)


@dataclass(frozen=True, kw_only=True)
class Person:
    """A customer, marked where something identifies them."""

    given: str
    family: str
    address: str
    phone: str

    @property
    def name(self) -> str:
        return mark("NAME", f"{self.given} {self.family}")

    @property
    def first(self) -> str:
        return mark("NAME", self.given)


def person(dice: Dice, *, towns: tuple[str, ...] = TOWNS, phone: str = "555-01##-####") -> Person:
    """Somebody who does not exist. Numbers are under 555-01, which no line has."""
    street = f"{dice.between(1, 240)} {dice.pick(STREETS)} {dice.pick(STREET_KINDS)}"
    return Person(
        given=dice.pick(GIVEN),
        family=dice.pick(FAMILY),
        address=mark("ADDRESS", f"{street}, {dice.pick(towns)}"),
        phone=mark("PHONE", digits(phone, dice)),
    )


def digits(pattern: str, dice: Dice) -> str:
    """`pattern` with a random digit for every `#` and a random capital for every `@`."""
    drawn = {"#": lambda: str(dice.below(10)), "@": lambda: chr(ord("A") + dice.below(26))}
    return "".join(drawn[c]() if c in drawn else c for c in pattern)

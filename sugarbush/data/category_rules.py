"""Rules between the values of a release, such as "a state only with the country US".

A rule has two conditions. A row in which all values of `if` hold needs all values of `then`:

    rules:
      - if: {sentiment: positive}
        then: {reason: none}
      - if: {country: {not: US}}
        then: {state: other}
      - if: {product: [server, editor], plan: free}
        then: {support: {not: [phone, visit]}}

A value is an entry of the attribute's domain, so it may be the bucket `other` or the name of a bin.
The author of the schema declares a rule from public knowledge. No private value is read. A rule
holds for a row in which one of the values is open (no prompt requested it).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_serializer

from sugarbush.data.cells import Listing, text_of

Domains = Mapping[str, tuple[str, ...]]
Codes = NDArray[np.int64]
_OPEN: Final = -1  # the code of a value that no prompt requested
_EXAMPLE: Final = "For example: {if: {state: [CA, OR]}, then: {country: US}}"
_FORMS: Final = "a condition of a rule is a value, a list of values, or {not: values}"
_MOST_STEPS: Final = 20_000  # of the search for a row; a longer search is given up


class Values(BaseModel):
    """The values of one attribute in a condition: these, or with `excluded` all others."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    listed: tuple[str, ...] = Field(min_length=1)
    excluded: bool = False

    @classmethod
    def of(cls, written: Any) -> Values:
        """Read a value, a list of values, or {not: a value or a list}."""
        excluded = isinstance(written, dict)
        if excluded:
            if set(written) != {"not"}:
                raise ValueError(_FORMS)
            written = written["not"]
        each = list(written) if isinstance(written, list | tuple) else [written]
        texts = [text_of(value) for value in each if not isinstance(value, dict | list | tuple)]
        if not each or len(texts) < len(each) or None in texts:
            raise ValueError(_FORMS)
        return cls(listed=tuple(str(text).strip() for text in texts), excluded=excluded)

    @property
    def written(self) -> Any:
        listed = self.listed[0] if len(self.listed) == 1 else list(self.listed)
        return {"not": listed} if self.excluded else listed

    def __str__(self) -> str:
        return ("not " if self.excluded else "") + " or ".join(self.listed)


class CategoryRule(BaseModel):
    """A rule as the schema declares it.

    >>> str(CategoryRule.of({"if": {"state": "CA"}, "then": {"country": "US"}}))
    'if state is CA, then country is US'
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    condition: dict[str, Values]
    then: dict[str, Values]

    @classmethod
    def of(cls, written: Any) -> CategoryRule:
        """Read a mapping with `if` and `then`. Raises ValueError for another form."""
        if not isinstance(written, dict) or set(written) != {"if", "then"}:
            raise ValueError(
                "a rule is a comparison of numbers or dates, or it has the keys if and then. "
                f"{_EXAMPLE}"
            )
        return cls(condition=_condition(written["if"]), then=_condition(written["then"]))

    @model_serializer
    def _write(self) -> dict[str, Any]:
        parts = {"if": self.condition, "then": self.then}
        return {
            key: {name: value.written for name, value in values.items()}
            for key, values in parts.items()
        }

    def __str__(self) -> str:
        first, second = (
            " and ".join(f"{name} is {value}" for name, value in values.items())
            for values in (self.condition, self.then)
        )
        return f"if {first}, then {second}"


def _condition(written: Any) -> dict[str, Values]:
    if not isinstance(written, dict) or not written:
        raise ValueError(f"if and then need attributes with values. {_EXAMPLE}")
    return {str(name): Values.of(value) for name, value in written.items()}


@dataclass(frozen=True)
class Implication:
    """A checked rule. `condition` and `then` map an attribute to the codes of its domain."""

    text: str
    sizes: Mapping[str, int]
    condition: Mapping[str, frozenset[int]]
    then: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, rule: CategoryRule, domains: Domains) -> Implication:
        """Check a rule. Raises ValueError for an unknown attribute or value."""
        condition, then = (
            {name: _codes(name, value, rule, domains) for name, value in values.items()}
            for values in (rule.condition, rule.then)
        )
        names = dict.fromkeys((*condition, *then))
        sizes = {name: len(domains[name]) for name in names}
        return cls(text=str(rule), sizes=sizes, condition=condition, then=then)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that the rule names."""
        return tuple(self.sizes)

    def broken(self, columns: Mapping[str, Codes]) -> NDArray[np.bool_]:
        """Return which rows break the rule, (n,). `columns` maps each name to its codes (n,). The
        code -1 is an open value."""
        masks = self._masks
        holds = [masks[0][name][columns[name]] for name in self.condition]
        follows = [masks[1][name][columns[name]] for name in self.then]
        return np.asarray(np.logical_and.reduce(holds) & ~np.logical_and.reduce(follows))

    @cached_property
    def _masks(self) -> tuple[dict[str, NDArray[np.bool_]], dict[str, NDArray[np.bool_]]]:
        """Return for each attribute which codes satisfy it. The last entry is for the code -1: an
        open value neither starts a rule nor breaks it."""
        parts = []
        for codes_of, is_open in ((self.condition, False), (self.then, True)):
            masks = {}
            for name, codes in codes_of.items():
                mask = np.zeros(self.sizes[name] + 1, dtype=bool)
                mask[list(codes)] = True
                mask[_OPEN] = is_open
                masks[name] = mask
            parts.append(masks)
        return parts[0], parts[1]

    def breaks(self, row: Mapping[str, int]) -> bool:
        """Return whether a row breaks the rule. An attribute that `row` lacks is open."""
        return all(row.get(name, _OPEN) in codes for name, codes in self.condition.items()) and any(
            name in row and row[name] not in codes for name, codes in self.then.items()
        )


def _codes(name: str, values: Values, rule: CategoryRule, domains: Domains) -> frozenset[int]:
    if name not in domains:
        raise ValueError(
            f"rule '{rule}' names '{name}', which is no attribute{_meant(name, tuple(domains))}"
        )
    domain = domains[name]
    listing, codes = Listing(domain), set()
    for value in values.listed:
        if (place := listing.place(value)) is None:
            raise ValueError(
                f"rule '{rule}' names '{value}', which is no value of {name}{_meant(value, domain)}"
            )
        codes.add(place)
    return frozenset(set(range(len(domain))) - codes if values.excluded else codes)


def _meant(text: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {close[0]}?" if close else ". Use one of " + ", ".join(known)


def row_that_obeys(
    rules: Sequence[Implication], *, row: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """Return a value for each attribute of the rules, or None if no values obey all rules.

    The values of `row` do not change. Raises TimeoutError after a long search.
    """
    sizes = {name: size for rule in rules for name, size in rule.sizes.items()}
    of_name = {name: [rule for rule in rules if name in rule.sizes] for name in sizes}
    found = dict(row or {})
    if any(rule.breaks(found) for rule in rules):
        return None
    waiting = [name for name in sizes if name not in found]
    steps = iter(range(_MOST_STEPS))

    def search(number: int) -> bool:
        if number == len(waiting):
            return True
        name = waiting[number]
        for code in reversed(range(sizes[name])):  # `other` first: most rules allow it
            if next(steps, None) is None:
                raise TimeoutError
            found[name] = code
            if not any(rule.breaks(found) for rule in of_name[name]) and search(number + 1):
                return True
        del found[name]
        return False

    return found if search(0) else None


def require_possible(rules: Sequence[Implication], domains: Domains) -> None:
    """Raise ValueError if no row can obey all rules, or none with one of the listed values.

    The bucket of an attribute may be impossible: then every row has a listed value.
    """
    try:
        if rules and row_that_obeys(rules) is None:
            raise ValueError(f"no row can obey all of these rules: {_listed(rules)}")
        for name, code in _listed_values(rules, domains):
            if row_that_obeys(rules, row={name: code}) is None:
                raise ValueError(
                    f"the rules allow no row with {name}: {domains[name][code]}. Change a rule, or "
                    f"remove the value. The rules are: {_listed(rules)}"
                )
    except TimeoutError:  # too many rules for a search: rows are then checked as they are drawn
        return


def _listed_values(rules: Sequence[Implication], domains: Domains) -> Iterator[tuple[str, int]]:
    for name in dict.fromkeys(name for rule in rules for name in rule.names):
        yield from ((name, code) for code in range(len(domains[name]) - 1))


def _listed(rules: Sequence[Implication]) -> str:
    return "; ".join(rule.text for rule in rules)

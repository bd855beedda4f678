"""Writes what is new in a release of a corpus that grows, for the card and the page."""

from __future__ import annotations

from collections.abc import Iterator

from sugarbush.privacy.accounting import rounded_up
from sugarbush.report.card import Card


def renewal_lines(card: Card) -> tuple[str, ...]:
    """Return what is new in the release, or nothing for a first release."""
    return tuple(_lines(card))


def _lines(card: Card) -> Iterator[str]:
    found = card.renewal
    if found is None:
        return
    if found.reused is not None:
        yield (
            f"Nothing new was learned since {found.learned}, because {found.reused}. Records that "
            "arrived later are not in this release."
        )
    if found.previous is not None and found.drawn_again:
        yield (
            f"Drawn again on {found.learned}, after the release of {found.previous}: "
            f"{', '.join(found.drawn_again)}."
        )
    elif found.previous is not None:
        yield (
            f"Nothing was drawn again since the release of {found.previous}. New texts were "
            "written or chosen by its scores."
        )
    for method, count in found.new_texts.items():
        yield f"New texts of {method}: {count:,} of {card.made_by.texts[method].released:,}."
    yield (
        f"This release spent epsilon {rounded_up(card.promise.epsilon_of_this_run)}. All charges "
        f"together have {rounded_up(card.budget.dataset_total_epsilon)} of a cap of "
        f"{rounded_up(card.budget.dataset_cap_epsilon)}."
    )
    if found.draws_left is not None:
        yield (
            f"The cap has room for {found.draws_left:,} more such draws, the next one from "
            f"{found.next_draw} on."
            if found.next_draw is not None
            else "The cap has no room for another such draw."
        )

"""Compares the card in reports/public with the ledger: is it of another state, or too small?"""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.methods.interface import Method
from sugarbush.paths import Roots
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.release.folders import charges_of_releases
from sugarbush.report.card import CARD_FILE, read_card

ROUNDING = 1e-6  # another processor may compute an epsilon that differs by less
_SHOW_THE_CARD = (CARD_FILE, "release_card.md", "release_card.html", "index.html")


def has_old_card(roots: Roots, privacy: PrivacySettings, ledger: Ledger) -> bool:
    """Return whether a public file shows a card of another state of the ledger, or of another
    ledger, or a card without a charge of a released folder. The totals on such a card may be too
    small. The times of the files say nothing: DVC and git restore old files with new times."""
    head, folder = ledger.head(), roots.published
    shown = {
        name: path.read_text("utf-8", "replace")
        for name in _SHOW_THE_CARD
        if (path := folder / name).exists()
    }
    charges = charges_of_releases(roots, privacy)
    lacks_charge = CARD_FILE in shown and any(
        f'"id": "{i}"' not in shown[CARD_FILE] and f'"id": {i},' not in shown[CARD_FILE]
        for i in charges
    )
    return lacks_charge or any(head not in text for text in shown.values())


def states_too_little(roots: Roots, methods: Sequence[Method], ledger: Ledger) -> bool:
    """Return whether the card in reports/public states a smaller epsilon than the ledger gives.

    `methods` are the released ones. An earlier version may have counted less, or somebody changed
    the file. Computing the total may take seconds. Raises StorageError for a damaged card.
    """
    from sugarbush.release.own_charges import spending_of_release  # slow

    path = roots.published / CARD_FILE
    spending = spending_of_release(roots, methods, ledger) if path.exists() else None
    if spending is None:
        return False
    card = read_card(path)
    stated = card.promise.epsilon, card.budget.dataset_total_epsilon
    computed = spending.epsilon, spending.total
    return any(
        not own >= exact * (1 - ROUNDING) for own, exact in zip(stated, computed, strict=True)
    )


def old_card_notice(
    roots: Roots, privacy: PrivacySettings, methods: Sequence[Method], ledger: Ledger
) -> str | None:
    """Return a warning if the totals on the card may be too small, or None."""
    is_here = ledger.path.exists()
    if not has_old_card(roots, privacy, ledger) and not (
        is_here and states_too_little(roots, methods, ledger)
    ):
        return None
    if is_here:
        return (
            "this card is older than the ledger or belongs to another ledger, so its totals may be "
            "too small. For a new card, run: sugarbush run"
        )
    return (
        f"the ledger of dataset '{ledger.dataset}' is not on this machine, so it is unknown "
        "whether this card counts all charges"
    )

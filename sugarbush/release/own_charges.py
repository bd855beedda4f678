"""Finds the charges of a project's finished release, and what else its dataset spent."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.errors import MissingInputError
from sugarbush.methods.interface import Method
from sugarbush.paths import Roots, require
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.spending import Spending, spending_of
from sugarbush.release.folders import FIGURES, final_folder, read_ledger_ids
from sugarbush.release.folders import FILE as RELEASE


def charges_of_texts(roots: Roots, methods: Sequence[Method]) -> tuple[str, ...]:
    """Return the charges of the released texts: of their metadata, of the texts, of the figures.

    `methods` are the released ones. Raises MissingInputError if a folder is missing.
    """
    metadata, figures = roots.released / "metadata", roots.released / "figures"
    require(metadata / RELEASE, left_by="synthesize_metadata")
    folders = [metadata, *(final_folder(roots, method) for method in methods)]
    folders += [figures] if (figures / FIGURES).exists() else []
    return tuple(dict.fromkeys(i for folder in folders for i in read_ledger_ids(folder)))


def own_charges(roots: Roots, methods: Sequence[Method], ledger: Ledger) -> tuple[str, ...]:
    """Return `charges_of_texts`, and those of all profiles of the dataset (`Ledger.profiles`)."""
    return tuple(dict.fromkeys((*ledger.profiles(), *charges_of_texts(roots, methods))))


def spending_of_release(roots: Roots, methods: Sequence[Method], ledger: Ledger) -> Spending | None:
    """Return what the finished release spent, and all others of its dataset, as the ledger is now.

    `methods` are the released ones. The result is None if nothing is released yet.
    """
    if not methods:
        return None
    try:
        own = own_charges(roots, methods, ledger)
    except MissingInputError:
        return None
    return spending_of(ledger.snapshot(), own)

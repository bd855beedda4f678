"""Finds the charges of a project's finished release, and what else its dataset spent."""

from __future__ import annotations

from sugarbush.errors import MissingInputError
from sugarbush.paths import require
from sugarbush.privacy.spending import Spending, spending_of
from sugarbush.release.figures import FILE as FIGURES
from sugarbush.release.folders import FILE as RELEASE
from sugarbush.release.folders import final_folder, read_ledger_ids
from sugarbush.run.context import Project


def charges_of_texts(project: Project) -> tuple[str, ...]:
    """Return the charges of the released texts: of their metadata, of the texts, of the figures.

    Raises MissingInputError if a folder is missing.
    """
    roots = project.roots
    metadata, figures = roots.released / "metadata", roots.released / "figures"
    require(metadata / RELEASE, left_by="synthesize_metadata")
    folders = [metadata, *(final_folder(roots, method) for method in project.settings.released)]
    folders += [figures] if (figures / FIGURES).exists() else []
    return tuple(dict.fromkeys(i for folder in folders for i in read_ledger_ids(folder)))


def own_charges(project: Project) -> tuple[str, ...]:
    """Return `charges_of_texts`, and those of all profiles of the dataset (`Ledger.profiles`)."""
    profiles = project.ledger(rehearse=False).profiles()
    return tuple(dict.fromkeys((*profiles, *charges_of_texts(project))))


def spending_of_project(project: Project) -> Spending | None:
    """Return what the finished release spent, and all others of its dataset, as the ledger is now.

    The result is None if nothing is released yet.
    """
    if not project.settings.released:
        return None
    try:
        own = own_charges(project)
    except MissingInputError:
        return None
    return spending_of(project.ledger(rehearse=False).snapshot(), own)

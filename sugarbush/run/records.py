"""Opens the private records of a project, and the secret key of its state."""

from __future__ import annotations

from sugarbush.data.private_store import PrivateCorpus, PrivateStore
from sugarbush.privacy.key import state_key
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.run.context import Project
from sugarbush.run.inputs import FolderInputs


def folder_inputs(project: Project) -> FolderInputs:
    """Return the inputs of a project in a folder."""
    assert isinstance(project.inputs, FolderInputs)
    return project.inputs


def private_store(project: Project) -> PrivateStore:
    """Return the private store of a project in a folder."""
    return folder_inputs(project).store


def corpus_of(project: Project) -> PrivateCorpus:
    """Return the private records. Raises PrivacyError as `require_prepared` does."""
    require_prepared(project)
    return project.inputs.records()


def require_prepared(project: Project) -> None:
    """Raise PrivacyError if the records were prepared for another unit, user column or number of
    records per user than the settings say."""
    project.inputs.records().bounds().require(project.settings.contribution_bounds)


def key_of(project: Project) -> bytes:
    """Return the secret key of the state folder."""
    return state_key(project.state)


def snapshots_of(project: Project) -> Snapshots:
    """Return the random names of the private files of the dataset."""
    return Snapshots(project.state, f"{project.settings.privacy.purpose}-{project.dataset}")

"""Batches that are submitted and not yet collected. Their files outlive the process that wrote
them.

    <state>/batches/<name>.json     one batch: its id, its account, and the cache keys of its calls
    <state>/batches/<name>.lock     held by the process that polls it

The file exists from before the batch is created until its last answer is in the cache. While it
exists, no run sends one of its calls again, and its calls count against the caps of its account.
Only the run that holds the lock of the account makes and removes files (`cost.Meter.alone`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_file, make_owner_only

FOLDER = "batches"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch that is submitted or will be submitted next.

    `id` is None until the endpoint has assigned it. `worst_cost` is the most that its calls can
    cost together. Files of version 0.1 have no account and no cost.
    """

    name: str
    base_url: str
    model: str
    id: str | None
    keys: tuple[str, ...]
    account: str = ""
    worst_cost: float = 0.0


def jobs_in(folder: Path) -> tuple[Job, ...]:
    """Every batch that no run has collected. Raises StorageError for a damaged file."""
    found = (load_job(path) for path in sorted(folder.glob("*.json")))
    return tuple(job for job in found if job is not None)


def jobs_with(folder: Path, keys: Collection[str]) -> tuple[Job, ...]:
    """The batches that contain one of `keys`."""
    wanted = set(keys)
    return tuple(job for job in jobs_in(folder) if wanted & set(job.keys))


def load_job(path: Path) -> Job | None:
    """The batch of a file; None if another run has just collected it."""
    try:
        fields = json.loads(path.read_text())
        job = Job(**{**fields, "keys": tuple(map(str, fields["keys"]))})
        if not 0 <= job.worst_cost < math.inf:
            raise ValueError("a cost that no batch has")
        return job
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StorageError(
            f"{path}: is not a record of a submitted batch. The answers can still be fetched "
            "from the endpoint by hand; remove the file to continue without them."
        ) from None


def job_path(folder: Path, job: Job) -> Path:
    """The file of a batch."""
    return folder / f"{job.name}.json"


def save_job(folder: Path, job: Job) -> None:
    """Write the file of a batch."""
    make_owner_only(folder)
    with atomic_file(job_path(folder, job)) as path:
        path.write_text(json.dumps(asdict(job)))


def remove_job(folder: Path, job: Job) -> None:
    """Remove the files of a batch. A run that waits for the lock then sees that the first file is
    gone."""
    job_path(folder, job).unlink(missing_ok=True)
    job_path(folder, job).with_suffix(".lock").unlink(missing_ok=True)


def job_lock(folder: Path, job: Job) -> FileLock:
    """The lock of the process that polls a batch. A process that dies releases it."""
    make_owner_only(folder)
    return FileLock(job_path(folder, job).with_suffix(".lock"))

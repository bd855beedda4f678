"""Reads and writes the job files of batches that no run has collected yet.

    <state>/batches/<name>.json     the job of one batch: its id, account and calls' cache keys
    <state>/batches/<name>.lock     the lock of the process that polls the batch

A run writes the job file before it creates the batch. The run removes the job file when the last
answer is in the cache. While the file exists, no run sends a call of the batch again. The calls of
the batch then count against the caps of the account. To write or remove job files, a run must hold
the lock of the account (`cost.Meter.alone`).
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


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """A batch that is submitted, or is about to be submitted.

    `id` is None until the endpoint has assigned an id. `worst_cost` is the maximum total cost of
    all calls.
    """

    name: str
    base_url: str
    model: str
    id: str | None
    keys: tuple[str, ...]
    account: str
    worst_cost: float


def jobs_in(folder: Path) -> tuple[BatchJob, ...]:
    """Return all batches that no run has collected. Raises StorageError for a damaged file."""
    jobs = (load_job(path) for path in sorted(folder.glob("*.json")))
    return tuple(job for job in jobs if job is not None)


def jobs_with(folder: Path, keys: Collection[str]) -> tuple[BatchJob, ...]:
    """Return the batches that contain a call with one of `keys`."""
    key_set = set(keys)
    return tuple(job for job in jobs_in(folder) if key_set & set(job.keys))


def load_job(path: Path) -> BatchJob | None:
    """Read a job file. Return None if another run has just removed the file."""
    try:
        fields = json.loads(path.read_text())
        job = BatchJob(**{**fields, "keys": tuple(map(str, fields["keys"]))})
        if not 0 <= job.worst_cost < math.inf:
            raise ValueError("the cost must be finite and not negative")
        return job
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StorageError(
            f"{path}: is not the file of a submitted batch. You can fetch the answers from the "
            "endpoint by hand. To continue without these answers, remove the file."
        ) from None


def job_path(folder: Path, job: BatchJob) -> Path:
    """Return the path of a batch's job file."""
    return folder / f"{job.name}.json"


def save_job(folder: Path, job: BatchJob) -> None:
    """Write the job file of a batch."""
    make_owner_only(folder)
    with atomic_file(job_path(folder, job)) as path:
        path.write_text(json.dumps(asdict(job)))


def remove_job(folder: Path, job: BatchJob) -> None:
    """Remove the job file and the lock file of a batch.

    Another run may wait for the lock. That run then sees from the missing job file that the batch
    is collected.
    """
    job_path(folder, job).unlink(missing_ok=True)
    job_path(folder, job).with_suffix(".lock").unlink(missing_ok=True)


def job_lock(folder: Path, job: BatchJob) -> FileLock:
    """Return the lock for polling a batch. The lock of a dead process is free again."""
    make_owner_only(folder)
    return FileLock(job_path(folder, job).with_suffix(".lock"))

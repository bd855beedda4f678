"""Runs a function on all shards of a corpus: in this process, in several processes, or on a
cluster.

The setting `run.cluster` chooses where the function runs. The function gets one shard, such as a
path, and returns partial sums. This process adds the partial sums and then draws the noise once. So
the released bytes do not depend on the number of shards or workers. If a worker dies, its shards
are computed again. The death of a worker costs no budget.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial, reduce
from itertools import takewhile
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from typing import Any

import cloudpickle
from threadpoolctl import threadpool_limits

from sugarbush.errors import FailureError, ParamsError, StorageError
from sugarbush.extras import require_extra
from sugarbush.privacy.shards import Combine, Function, MapShards
from sugarbush.run.error_report import format_error
from sugarbush.threads import thread_count

LOCAL, PROCESSES = "local", "processes"
_DEVICES = "CUDA_VISIBLE_DEVICES"
_TRIES = 4


def engine(name: str) -> MapShards | None:
    """Return the `map_shards` of the setting `run.cluster`, or None for this process."""
    if name == LOCAL:
        return None
    if name != PROCESSES:
        return Dask(name)
    devices = visible_devices()
    return ProcessPool(len(devices) or thread_count(), devices)


def require_packages(name: str) -> None:
    """Raise ParamsError if `run.cluster` is the address of a scheduler and Dask is missing."""
    if name not in (LOCAL, PROCESSES):
        require_extra("cluster")


def visible_devices() -> tuple[str, ...]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES, in order. Without this variable, return all GPUs of
    this machine.

    >>> import os
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="3,1"):
    ...     visible_devices()
    ('3', '1')
    """
    named = os.environ.get(_DEVICES)
    if named is not None:
        names = (name.strip() for name in named.split(","))
        return tuple(takewhile(lambda name: name not in {"", "-1"}, names))
    import torch

    return tuple(map(str, range(torch.cuda.device_count())))


@dataclass(frozen=True)
class ProcessPool:
    """Runs `map_shards` in processes on this machine. With `devices`, each process has one GPU."""

    processes: int
    devices: tuple[str, ...] = ()

    def __call__(self, function: Function, shards: Sequence[Any], combine: Combine) -> Any:
        """Raises StorageError after processes were killed several times in a row."""
        pickled, left, found = cloudpickle.dumps(function), list(range(len(shards))), []
        context = get_context("forkserver")  # a fork copies locks that other threads hold
        context.set_forkserver_preload(["sugarbush.evolution.scorers"])
        threads = max(1, thread_count() // self.processes)
        for _ in range(_TRIES):
            own = context.SimpleQueue()
            for place in range(self.processes if self.devices else 0):
                own.put(self.devices[place % len(self.devices)])
            with ProcessPoolExecutor(
                self.processes,
                mp_context=context,
                initializer=_receive,
                initargs=(pickled, threads, own if self.devices else None),
            ) as pool:
                futures = {pool.submit(_call_received, shards[place]): place for place in left}
                try:
                    for future in as_completed(futures):
                        found.append(future.result())
                        left.remove(futures[future])
                except BrokenProcessPool:
                    continue
            return reduce(combine, found)
        raise StorageError(
            f"run.cluster: processes were killed {_TRIES} times. The machine may lack memory. Set "
            "run.cluster: local, or use a machine with more memory"
        )


@dataclass(frozen=True)
class Dask:
    """Runs `map_shards` on the workers of a Dask scheduler, which can open the same files."""

    address: str

    def __call__(self, function: Function, shards: Sequence[Any], combine: Combine) -> Any:
        """Raises ParamsError without Dask or a scheduler, and FailureError if a worker fails."""
        require_packages(self.address)
        import dask
        from distributed import Client, as_completed

        try:
            client = Client(self.address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ParamsError(
                f"params.yaml: run.cluster={self.address} does not answer "
                f"({type(error).__name__}). Start `dask scheduler` and `dask worker`, or set "
                "run.cluster: local"
            ) from None
        with client:
            # A task returns the function. If workers die, Dask runs this task again. Data that
            # `scatter` sends would be lost with the workers.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                sent = client.submit(cloudpickle.loads, cloudpickle.dumps(function), pure=False)
            submit = partial(client.submit, _call, sent, pure=False, retries=_TRIES)
            # No variable refers to the futures, because workers delete a result only when its
            # future is gone.
            done = as_completed(map(submit, shards), loop=client.loop, with_results=True)
            return reduce(combine, (result for _, result in done))


def _call(function: Function, shard: Any) -> Any:
    """Call `function` on a worker. Dask logs the messages of errors, and a message may quote a
    text. So an error is raised again without its own message."""
    try:
        return function(shard)
    except Exception as error:
        message, _ = format_error(error)
    raise FailureError(f"a worker of run.cluster: {message}")


_received: list[Function] = []


def _receive(pickled: bytes, threads: int, devices: SimpleQueue[str] | None) -> None:
    # PyTorch reads both variables at import, so they must be set before `function` is loaded.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if devices is not None:
        os.environ[_DEVICES] = devices.get()
    threadpool_limits(threads)
    _received[:] = [cloudpickle.loads(pickled)]


def _call_received(shard: Any) -> Any:
    return _received[0](shard)

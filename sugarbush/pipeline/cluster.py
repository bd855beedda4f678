"""Runs work on the parts of a corpus: in this process, in several processes, or on a cluster.

The setting `run.cluster` chooses one of these. A function gets one part, such as a path, and
returns a small result: partial sums. Noise is drawn once, in this process, after the sum. So the
released bytes do not depend on the number of parts or workers. A worker that dies costs no budget:
its parts are computed again.
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
from sugarbush.pipeline.entry_point import format_error
from sugarbush.privacy.parts import Combine, Function, MapParts
from sugarbush.threads import thread_count

LOCAL, PROCESSES = "local", "processes"
_DEVICES = "CUDA_VISIBLE_DEVICES"
_TRIES = 4


def engine(name: str) -> MapParts | None:
    """Return the `map_parts` of the setting `run.cluster`; None for this process and its threads.
    Raises ParamsError for an address if the extra `sugarbush[cluster]` is not installed."""
    if name == LOCAL:
        return None
    if name != PROCESSES:
        return Dask(name)
    devices = visible_devices()
    return ProcessPool(len(devices) or thread_count(), devices)


def visible_devices() -> tuple[str, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, in that order. If the variable is not set,
    return all GPUs of this machine.

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
    """`map_parts` in several processes of this machine, which share its cores. With `devices`, each
    process uses one GPU."""

    processes: int
    devices: tuple[str, ...] = ()

    def __call__(self, function: Function, parts: Sequence[Any], combine: Combine) -> Any:
        """Raises StorageError when processes were killed several times in a row."""
        pickled, left, found = cloudpickle.dumps(function), list(range(len(parts))), []
        context = get_context("forkserver")  # a fork copies locks that other threads hold
        context.set_forkserver_preload(["sugarbush.evolution.voting"])
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
                futures = {pool.submit(_call_received, parts[place]): place for place in left}
                try:
                    for future in as_completed(futures):
                        found.append(future.result())
                        left.remove(futures[future])
                except BrokenProcessPool:
                    continue
            return reduce(combine, found)
        raise StorageError(f"run.cluster: processes were killed {_TRIES} times. Is memory short?")


@dataclass(frozen=True)
class Dask:
    """`map_parts` on the workers of a Dask scheduler, which can open the same files."""

    address: str

    def __call__(self, function: Function, parts: Sequence[Any], combine: Combine) -> Any:
        """Raises ParamsError if the scheduler does not answer, FailureError if a worker fails."""
        try:
            import dask
            from distributed import Client, as_completed
        except ImportError:
            raise ParamsError(
                f"params.yaml: run.cluster={self.address} needs Dask: pip install "
                "'sugarbush[cluster]'"
            ) from None
        try:
            client = Client(self.address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ParamsError(
                f"params.yaml: run.cluster={self.address} does not answer "
                f"({type(error).__name__}). Start `dask scheduler` and `dask worker`, or set "
                "run.cluster: local"
            ) from None
        with client:
            # Sent to every worker once, as the result of a task: Dask computes such a result again
            # if its workers die. Scattered data would be lost with them.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                sent = client.submit(cloudpickle.loads, cloudpickle.dumps(function), pure=False)
            submit = partial(client.submit, _call, sent, pure=False, retries=_TRIES)
            # No variable refers to the futures, so workers delete each result after it was fetched.
            done = as_completed(map(submit, parts), loop=client.loop, with_results=True)
            return reduce(combine, (result for _, result in done))


def _call(function: Function, part: Any) -> Any:
    """Call `function` on a worker. Dask stores the message of an error in logs, and the message may
    quote a text. So an error is raised again without its message."""
    try:
        return function(part)
    except Exception as error:
        message, _ = format_error(error)
    raise FailureError(f"a worker of run.cluster: {message}")


_received: list[Function] = []


def _receive(pickled: bytes, threads: int, devices: SimpleQueue[str] | None) -> None:
    # PyTorch reads both variables when it is imported, so they are set before `function` is loaded.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if devices is not None:
        os.environ[_DEVICES] = devices.get()
    threadpool_limits(threads)
    _received[:] = [cloudpickle.loads(pickled)]


def _call_received(part: Any) -> Any:
    return _received[0](part)

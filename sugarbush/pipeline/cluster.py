"""Runs work on the parts of a corpus: in this process, in several processes, or on a cluster.

The setting `run.cluster` decides. A function gets one part, such as a path, and returns a small
result: partial sums. Noise is drawn once, in this process, after the sum. So the released bytes do
not depend on the number of parts or workers, and a worker that dies costs no budget: its parts are
computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import reduce
from multiprocessing import get_context
from typing import Any

import cloudpickle

from sugarbush.errors import FailureError, ParamsError, StorageError
from sugarbush.pipeline.entry_point import format_error
from sugarbush.privacy.parts import MapParts
from sugarbush.threads import thread_count

LOCAL, PROCESSES = "local", "processes"
_TRIES = 4

Function = Callable[[Any], Any]
Combine = Callable[[Any, Any], Any]


def map_parts(function: Function, parts: Sequence[Any], combine: Combine) -> Any:
    """Compute `function(part)` for all parts in this process, and combine the results with
    `combine`.

    >>> map_parts(abs, [3, -4], int.__add__)
    7
    """
    return reduce(combine, map(function, parts))


def engine(name: str) -> MapParts | None:
    """Return the `map_parts` that the setting `run.cluster` names; None for this process and its
    threads.

    Raises ParamsError for an address if the extra `sugarbush[cluster]` is not installed.
    """
    if name == LOCAL:
        return None
    return ProcessPool(thread_count()) if name == PROCESSES else Dask(name)


@dataclass(frozen=True)
class ProcessPool:
    """`map_parts` in several processes of this machine."""

    processes: int

    def __call__(self, function: Function, parts: Sequence[Any], combine: Combine) -> Any:
        """Raises StorageError when processes were killed several times in a row."""
        pickled, left, found = cloudpickle.dumps(function), list(range(len(parts))), []
        context = get_context("forkserver")  # a fork of this process would copy its threads' locks
        context.set_forkserver_preload(["sugarbush.evolution.voting"])
        for _ in range(_TRIES):
            with ProcessPoolExecutor(
                self.processes,
                mp_context=context,
                initializer=_receive,
                initargs=(pickled,),
            ) as pool:
                futures = {pool.submit(_call_received, parts[place]): place for place in left}
                try:
                    for future in as_completed(futures):
                        found.append(future.result())
                        left.remove(futures[future])
                except BrokenProcessPool:
                    continue
            return reduce(combine, found)
        raise StorageError("run.cluster: processes were killed again and again; is memory short?")


@dataclass(frozen=True)
class Dask:
    """`map_parts` on the workers of a Dask scheduler, which see the same files."""

    address: str

    def __call__(self, function: Function, parts: Sequence[Any], combine: Combine) -> Any:
        """The function contains the candidates, and is sent to every worker once.

        Raises ParamsError when the scheduler does not answer, and FailureError for an error of a
        worker.
        """
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
            # The result of a task, not scattered: it is computed again if its workers die.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                sent = client.submit(cloudpickle.loads, cloudpickle.dumps(function), pure=False)
            futures = [
                client.submit(_call, sent, part, pure=False, retries=_TRIES) for part in parts
            ]
            done = as_completed(futures, loop=client.loop, with_results=True)
            return reduce(combine, (result for _, result in done))


def _call(function: Function, part: Any) -> Any:
    """Call `function` on a worker, whose log and scheduler store the message of every error. So an
    error has no message that may quote a text."""
    try:
        return function(part)
    except Exception as error:
        message, _ = format_error(error)
    raise FailureError(f"a worker of run.cluster: {message}")


_received: list[Function] = []


def _receive(pickled: bytes) -> None:
    _received[:] = [cloudpickle.loads(pickled)]


def _call_received(part: Any) -> Any:
    return _received[0](part)

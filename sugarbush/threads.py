"""Runs blocks of work on all cores, with one BLAS thread each.

NumPy uses several cores only for matrix products. Blocks in threads use all cores for all work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from sugarbush.progress import progress

T = TypeVar("T")


def thread_count() -> int:
    """Return the number of threads that NumPy's BLAS would use."""
    return max([1, *(int(library.num_threads) for library in _blas().lib_controllers)])


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread. For a few thousand rows, more threads are not faster: on a
    busy machine they wait for one another, and use twice the CPU time."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limited


def run_in_threads(
    function: Callable[[T], object], items: Iterable[T], *, threads: int, what: str
) -> None:
    """Call `function` on every item, in any order, and ignore its results. Raises the first error.

    A progress bar shows `what`, and only a percentage, because the items may be private records.

    >>> found = []
    >>> run_in_threads(found.append, [1, 2], threads=2, what="scores")
    >>> sorted(found)
    [1, 2]
    """
    work = list(items)
    with _blas().limit(limits=1), progress(len(work), what=what, private=True) as advance:
        if threads == 1:  # starting a pool takes longer than a small vote
            for item in work:
                function(item)
                advance()
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(function, work):
                advance()


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices that cover `rows` rows, with at most `size` rows each."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _blas() -> ThreadpoolController:
    return _found_blas(with_scipy="scipy.linalg" in sys.modules)


@lru_cache(maxsize=2)
def _found_blas(*, with_scipy: bool) -> ThreadpoolController:
    """Find the BLAS of NumPy, and that of SciPy if it is loaded. Cached, because the search takes
    longer than a small vote."""
    return ThreadpoolController().select(user_api="blas")

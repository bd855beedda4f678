"""Mutation tests: each file in this folder describes a mutant, a code change that breaks a claim.

`make mutants` applies each mutant to a copy of the source tree, and runs the tests that the file of
the mutant names. These tests must pass on the unchanged copy and fail on the changed copy. If they
pass on the changed copy, no test notices when the claim is broken. `python -m tests.mutants NAME
...` runs only the named mutants. A mutant of code that needs a `package` is judged only where this
package is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Queue

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = (
    "sugarbush", "tasks", "flows", "tests", "research", "benchmarks", "examples", "docs",
    "README.md",
)  # fmt: skip
FILES = (
    "pyproject.toml",
    "params.yaml",
    "dvc.yaml",
    "prefect.yaml",
    "prefect.toml",
    ".gitignore",
    "mkdocs.yml",
)
PASSED, FAILED = 0, 1  # pytest's exit codes
WORKERS = 2
LIMIT_S = 600


@dataclass(frozen=True)
class Mutant:
    """A code change: `old`, which occurs once in `file`, is replaced by `new`.

    At least one of `tests` must then fail.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    package: str | None = None

    @property
    def can_be_judged(self) -> bool:
        """Whether the package that the tests need is installed."""
        return self.package is None or find_spec(self.package) is not None


def load() -> list[Mutant]:
    """Return all mutants, sorted by name."""
    found = []
    for path in sorted(HERE.glob("*.yaml")):
        fields = yaml.safe_load(path.read_text())
        found.append(Mutant(path.stem, **fields | {"tests": tuple(fields["tests"])}))
    return found


def changed(text: str, mutant: Mutant) -> str:
    """Return the text of the file with the mutation.

    Raises ValueError if `old` does not occur exactly once.
    """
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.file} has its line {text.count(mutant.old)} times"
        )
    return text.replace(mutant.old, mutant.new)


def copy_tree(target: Path) -> Path:
    """Copy the files that tests read to `target`, without caches and data."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.pyc")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
    for name in (*FILES, *(part for part in PARTS if (ROOT / part).is_file())):
        shutil.copy(ROOT / name, target / name)
    return target


def run_tests(tree: Path, tests: tuple[str, ...]) -> int:
    """Run tests in the copy `tree`. Return the exit code of pytest, or -1 after a timeout."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "SUGARBUSH_STATE": str(tree / ".state"),
        "PREFECT_HOME": str(tree / ".state" / "prefect"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        return subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return -1


def judge(mutant: Mutant, trees: Queue[Path]) -> str:
    """Run one mutant. Return "killed" if a test failed, else what happened instead."""
    tree = trees.get()
    path = tree / mutant.file
    original = path.read_text()
    try:
        path.write_text(changed(original, mutant))
        code = run_tests(tree, mutant.tests)
    except ValueError as error:
        return str(error)
    finally:
        path.write_text(original)
        trees.put(tree)
    if code == FAILED:
        return "killed"
    return "SURVIVED" if code == PASSED else f"no verdict: pytest ended with {code}"


def main(names: list[str]) -> int:
    """Run all mutants, or only the mutants in `names`. Return the exit code."""
    chosen = [mutant for mutant in load() if not names or mutant.name in names]
    mutants = [mutant for mutant in chosen if mutant.can_be_judged]
    for mutant in (mutant for mutant in chosen if not mutant.can_be_judged):
        print(f"{mutant.name:36} not judged: {mutant.package} is not installed")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: Queue[Path] = Queue()
        for number in range(WORKERS):
            trees.put(copy_tree(Path(folder) / str(number)))
        every = tuple(sorted({test for mutant in mutants for test in mutant.tests}))
        halves = [every[number::WORKERS] for number in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            codes = list(pool.map(run_tests, list(trees.queue), [h for h in halves if h]))
            if any(code != PASSED for code in codes):
                print("the tests fail on the unchanged code; run them first")
                return 1
            killed = 0
            for mutant, verdict in zip(
                mutants, pool.map(lambda m: judge(m, trees), mutants), strict=True
            ):
                killed += verdict == "killed"
                print(f"{mutant.name:36} {verdict:10} {mutant.promise}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{killed} of {len(mutants)} killed, {minutes:.1f} minutes")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

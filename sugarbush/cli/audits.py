"""`sugarbush audit`: attacks mechanisms on invented records, and methods on public records.

The command charges only ledgers in temporary folders, and writes no file. The command reads a
corpus only if you name a method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sugarbush.audits.canary_audit import (
    CANARIES,
    CONFIDENCE,
    DELTA,
    MECHANISMS,
    WITHOUT_INFINITY,
    AuditFinding,
    Size,
    audit,
    size_for,
)
from sugarbush.audits.mechanism_runs import CanaryRun
from sugarbush.audits.method_audit import (
    AuditCorpus,
    AuditRecords,
    audit_records,
    is_auditable,
    method_run,
    method_size,
)
from sugarbush.audits.noise_faults import Fault
from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.methods.interface import Method
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages.audit import audit_corpus
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.registry import METHODS, plugin_names
from sugarbush.run.context import Project

# The lower bound is valid only for a total of at most 1 / (2 delta) canaries.
_MOST_RUNS = int(1 / (2 * DELTA)) // CANARIES


def show_audit(
    names: Sequence[str], *, epsilon: float, runs: int, seed: int, console: Console
) -> None:
    """Print a table with the claimed epsilon, the lower bound and the detected faulty copies
    (controls) of each mechanism or method. If a lower bound is above its claim, raise PrivacyError
    after the table."""
    _require(names, epsilon, runs)
    methods = _Methods(seed)
    infinite = math.isinf(epsilon)
    groups = []
    for name in names or MECHANISMS:
        if infinite and name in WITHOUT_INFINITY:
            console.print(
                f"{name}: no audit at epsilon inf, because this mechanism always adds noise"
            )
            continue
        tried = [None] if infinite else [None, *Fault]
        findings = []
        for fault in tried:
            size, run = size_for(fault, epsilon=epsilon, runs=runs), None
            if name not in MECHANISMS:
                size, run = methods.of(name, fault, runs=runs)
            findings.append(
                audit(name, epsilon=epsilon, size=size, fault=fault, seed=seed, run=run)
            )
        console.print(_sentence(findings[0]), soft_wrap=True)
        groups.append(findings)
    _print_table(groups, console)
    _require_no_violation([findings[0] for findings in groups])


class _Methods:
    """Contains the methods of the project in this folder, with records for their audits."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._by_name: dict[str, tuple[Method, AuditRecords, CanaryRun]] = {}

    @cached_property
    def _project(self) -> Project:
        return open_project(Path())

    @cached_property
    def _corpus(self) -> AuditCorpus:
        return audit_corpus(self._project)

    def of(self, name: str, fault: Fault | None, *, runs: int) -> tuple[Size, CanaryRun]:
        if name not in self._by_name:
            corpus, method = self._corpus, self._project.settings.method(name)
            if not is_auditable(method):
                raise ParamsError(
                    f"method '{name}' has no attack for these settings. Choose another method"
                )
            records = audit_records(corpus, method, seed=self._seed)
            self._project.ledger(rehearse=False).note_shown("audit")
            self._by_name[name] = method, records, method_run(method, corpus, records)
        method, records, run = self._by_name[name]
        coarse = fault not in {None, Fault.ROOT_TWO}
        return method_size(method, records, runs=runs, coarse=coarse), run


def _require(names: Sequence[str], epsilon: float, runs: int) -> None:
    choices = [*MECHANISMS, *plugin_names(METHODS)]
    unknown = [name for name in names if name not in choices]
    if unknown:
        raise ParamsError(f"no mechanism '{unknown[0]}'. Choose from: {', '.join(choices)}")
    if not epsilon > 0:
        raise ParamsError(f"--epsilon must be above 0 (got {epsilon})")
    if not 2 <= runs <= _MOST_RUNS:
        raise ParamsError(f"--runs must be from 2 to {_MOST_RUNS} (got {runs})")


def _sentence(finding: AuditFinding) -> str:
    lower = rounded_down(finding.lower_epsilon, 3)
    claimed = rounded_up(finding.claimed_epsilon, 3)
    if finding.violation:
        return f"{finding.mechanism}: VIOLATION (lower bound {lower} of {claimed})"
    return f"{finding.mechanism}: no violation found (lower bound {lower} of {claimed})"


def _print_table(groups: Sequence[Sequence[AuditFinding]], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("mechanism")
    for column in ("claimed", "lower bound", "Gaussian", *Fault):
        table.add_column(str(column), justify="right")
    for first, *controls in groups:
        caught = {control.fault: control.violation for control in controls}
        outcomes = ["-" if f not in caught else "caught" if caught[f] else "MISSED" for f in Fault]
        claimed = rounded_up(first.claimed_epsilon, 3)
        lower = [rounded_down(e, 3) for e in (first.lower_epsilon, first.lower_gaussian_epsilon)]
        table.add_row(first.mechanism, claimed, *lower, *outcomes)
    console.print()
    console.print(table)
    console.print(
        f"\nEpsilon at delta {rounded_up(DELTA)}; bounds at {rounded_down(100 * CONFIDENCE)}% "
        "confidence. 'Gaussian' assumes the trade-off curve that the ledger claims. The last four "
        "columns are copies of the mechanism with deliberately wrong noise. 'caught' means that "
        "the audit disproves the copy's claim. An audit can find a violation, but cannot show that "
        "a mechanism has no "
        "violation."
    )
    if any(not control.violation for _, *controls in groups for control in controls):
        console.print("A control is MISSED. The audit is too weak for this fault. Raise --runs.")


def _require_no_violation(findings: Sequence[AuditFinding]) -> None:
    for finding in findings:
        if finding.violation:
            raise PrivacyError(
                f"{finding.mechanism}: the audit disproves the claimed epsilon "
                f"{rounded_up(finding.claimed_epsilon, 3)}. A correct mechanism passes at least "
                f"{rounded_down(100 * finding.confidence)}% of audits. Repeat the audit with "
                "another --seed. If the audit fails again, report the violation, and publish no "
                "release of this version."
            )

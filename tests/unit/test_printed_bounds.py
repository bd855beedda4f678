"""Tests that every printed number that bounds a risk is rounded to the safe side.

Epsilon, delta, mu and other upper bounds are rounded up. Noise and lower bounds are rounded down.
The numbers here are chosen so that rounding to the nearest number, or truncation, is visible.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2.nodes
import pytest
from rich.console import Console

from research.knowledge import advantages
from sugarbush.audits.canary_audit import AuditFinding
from sugarbush.audits.one_run import Outcome
from sugarbush.cli import audits
from sugarbush.cli.budgets import show_budget
from sugarbush.cli.runs import print_results
from sugarbush.errors import InvariantError, ParamsError, PrivacyError
from sugarbush.methods.plan import plan_for
from sugarbush.paths import Roots
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import adaptive_epsilon
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DiscreteGaussian, Event, GaussianDp, PoissonGaussian
from sugarbush.privacy.gaussian_dp_filter import GaussianDpFilter
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.project import budget as budgets
from sugarbush.project import check as checks
from sugarbush.project.run import results
from sugarbush.release.folders import method_folder
from sugarbush.release.own_charges import spending_of_release
from sugarbush.report.card import card_json
from sugarbush.report.card_files import card_html, card_markdown
from sugarbush.report.card_values import release_card
from sugarbush.report.downloads import texts_name
from sugarbush.report.page import render_internal_page, render_public_page
from sugarbush.report.statements import release_epsilon
from sugarbush.report.templating import LOADER, TEMPLATES
from sugarbush.run.context import Project
from sugarbush.training.crt.confidentiality import agreed_gamma, bayesian
from tests.settings import ROOT, params
from tests.unit.report.sample import entry, internal_data, public_data, release, the_plan

_DELTA, _MU, _NOISE, _CAP = 1.2345644e-6, 0.09420001, 41.98765, 24.360001
_MULTIPLIER, _RATE, _TOTAL = 7.739999, 0.010100001, 17.1210001
_TRAINING = PoissonGaussian(noise_multiplier=_MULTIPLIER, rate=_RATE, count=7)
_NUMBER = re.compile(r"(?<![\w.#-])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)")


def require_safe(text: str, *, upper: Sequence[float] = (), lower: Sequence[float] = ()) -> None:
    """Compare each number of `text` that is within 0.7% of a true value with the true value.

    At least one number must be that close to each value. JSON contains all digits of a float.
    """
    numbers = [Decimal(found) for found in _NUMBER.findall(text)]
    for values, is_safe in ((upper, Decimal.__ge__), (lower, Decimal.__le__)):
        for value in values:
            true = Decimal(value)
            near = [n for n in numbers if abs(n - true) <= true * Decimal("0.007")]
            assert near, f"{value} is not printed"
            unsafe = [str(n) for n in near if float(n) != value and not is_safe(n, true)]
            assert not unsafe, f"{value} is printed as {unsafe}"


def awkward_release(**changes: Any) -> Any:
    """A release of which no number has few digits."""
    events = (
        GaussianDp(mu=_MU),
        DiscreteGaussian(stddev=_NOISE, sensitivity=1),
        DiscreteGaussian(stddev=_NOISE, sensitivity=1),
        _TRAINING,
    )
    ids = ("a1b2c3d4e5f60718", "b100000000000001", "b200000000000002", "c100000000000001")
    entries = tuple(entry(i, event, "evolve@maple") for i, event in zip(ids, events, strict=True))
    fields = {"entries": entries, "delta": _DELTA, "cap": _CAP, "total": _TOTAL}
    return release(**(fields | changes))


def ledger_in(folder: Path, *, cap: float = _CAP) -> Ledger:
    return Ledger(
        folder, dataset="tickets", purpose="release", unit=Unit.RECORD, cap=cap, delta=_DELTA
    )


OTHER = entry("d100000000000001", GaussianDp(mu=_MU), "measure")


@pytest.mark.parametrize("after", [(), (OTHER,)])
def test_the_card_prints_no_bound_below_the_truth(after: tuple[Entry, ...]) -> None:
    facts = awkward_release(after=after)
    card = release_card(facts)
    epsilon = release_epsilon(facts)
    upper = [epsilon, math.exp(epsilon), _DELTA, _MU, _RATE, _TOTAL, _CAP, facts.spending.of_run]
    require_safe(card_markdown(card), upper=upper, lower=[_NOISE, _MULTIPLIER])
    require_safe(card_json(card), upper=upper, lower=[_NOISE, _MULTIPLIER])
    require_safe(re.sub(r"<[^>]*>", " ", card_html(card)), upper=upper, lower=[_NOISE])


@pytest.mark.parametrize("internal", [False, True])
def test_the_pages_print_no_bound_below_the_truth(internal: bool) -> None:
    facts = awkward_release(plan=replace(the_plan(), epsilon=0.7777712))
    data = replace(public_data(), release=facts)
    maple = data.methods[0]
    rounds = tuple(replace(each, stddev=33.19999) for each in maple.rounds)
    data = replace(data, methods=(replace(maple, rounds=rounds), *data.methods[1:]))
    assert data.table is not None
    measured = tuple(replace(m, stddev=88.4777) for m in data.table.measurements)
    data = replace(data, table=replace(data.table, measurements=measured))
    upper = [release_epsilon(facts), _DELTA, _MU, _RATE, _TOTAL, _CAP, facts.plan.epsilon]
    lower = [_NOISE, _MULTIPLIER, 33.19999, 88.4777]
    if not internal:
        page = render_public_page(data)
    else:
        audit = {
            "phrases": {"training": 1, "phantoms": 2, "records": 300, "p_value": 0.0617345},
            "lower_epsilon": 0.557777,
            "claimed_epsilon": 11.11111,
            "confidence": 0.93499,
        }
        page = render_internal_page(data, replace(internal_data(), audits={"maple": audit}))
        upper += [0.0617345, 11.11111]
        lower += [0.557777, 93.499]
    shown = re.sub(r"<script.*?</script>|<svg.*?</svg>|<style.*?</style>", "", page, flags=re.S)
    require_safe(re.sub(r"<[^>]*>", " ", shown), upper=upper, lower=lower)


def printed(write: Callable[[Console], object]) -> str:
    console = Console(file=io.StringIO(), width=300)
    write(console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def project_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder))
    changes: dict[str, Any] = {"privacy__purpose": "release", "privacy__dataset": "tickets"}
    changes |= {"privacy__delta": _DELTA, "privacy__epsilon": 0.24360001, "privacy__cap": _CAP}
    changes |= {"prepare__file": "letters.jsonl", "prepare__donated": None}
    return open_project(folder, settings=params(methods=["maple"], **changes))


def test_the_commands_print_no_bound_below_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_in(tmp_path, monkeypatch)
    ledger = project.ledger()
    events: list[Event] = [GaussianDp(mu=_MU), DiscreteGaussian(stddev=_NOISE), _TRAINING]
    for event in events:
        ledger.charge(event, stage="evolve", run="r")
    monkeypatch.setattr(budgets, "would_spend", lambda project: True)
    monkeypatch.setattr(checks, "would_spend", lambda project: True)
    plan = project.plan
    both = [_DELTA, _CAP, plan.epsilon, ledger.total()]
    noise = [plan.of("votes:maple").stddev]
    metadata = plan.of("metadata").event
    assert isinstance(metadata, GaussianDp)
    require_safe(
        printed(lambda console: show_budget(project, console)),
        upper=[*both, _MU, _RATE, metadata.mu],
        lower=[_NOISE, _MULTIPLIER, *noise],
    )
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    require_safe(checks.checked_budget(project).lines, upper=both)
    roots, facts = Roots(tmp_path), awkward_release()
    synthetic = method_folder(roots, project.settings.method("maple"), "enlarge")
    for folder in (roots.published, synthetic):
        folder.mkdir(parents=True)
    (roots.published / "release_card.json").write_text(card_json(release_card(facts)))
    (synthetic / "synthetic.jsonl").write_text("")
    (roots.published / texts_name("maple")).write_text("")
    ids = [entry.id for entry in ledger.entries()]
    for folder, own in ((roots.released / "metadata", ids[:1]), (synthetic, ids[:1])):
        folder.mkdir(exist_ok=True)
        fields = {"dataset": "tickets", "purpose": "release", "ledger_ids": own}
        (folder / "release.json").write_text(json.dumps(fields))
    spending = spending_of_release(
        project.roots, project.settings.released, project.ledger(rehearse=False)
    )
    assert spending is not None and spending.others
    roots.internal.mkdir(parents=True)
    (roots.internal / "metrics.json").write_text('{"final": {}}')
    require_safe(
        printed(lambda console: print_results(results(tmp_path, project.settings), console)),
        upper=[_DELTA, _CAP, spending.total, spending.of_run],
    )
    require_safe(
        printed(lambda console: show_budget(project, console)),
        upper=[spending.total, spending.of_run],
    )


def message_of(fails: Callable[[], object]) -> str:
    with pytest.raises((ParamsError, PrivacyError, InvariantError)) as raised:
        fails()
    return str(raised.value)


def test_a_refused_charge_names_no_bound_below_the_truth(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path, cap=0.24360001)
    ledger.charge(GaussianDp(mu=0.03), stage="evolve", run="r")
    said = message_of(lambda: ledger.charge(GaussianDp(mu=0.2), stage="evolve", run="r"))
    after, before = ledger.total(GaussianDp(mu=0.2)), ledger.total()
    require_safe(said, upper=[_DELTA, 0.24360001, after, before])


def test_refused_settings_are_named_with_no_bound_below_the_truth() -> None:
    large = message_of(lambda: params(privacy__delta=1.2345644e-4))
    require_safe(large, upper=[1.2345644e-4, 1e-5])
    privacy = params(privacy__delta=1.2345644e-6).privacy
    require_safe(message_of(lambda: privacy.check_delta(1e7)), upper=[_DELTA])
    low = params(methods=["augpe"], privacy__epsilon=0.0010000012, privacy__delta=_DELTA)
    require_safe(
        message_of(lambda: plan_for(low.privacy, low.chosen)), upper=[0.0010000012, 1000.0]
    )
    filter_ = GaussianDpFilter(mu=0.3087001)
    filter_.spend(0.2)
    require_safe(
        message_of(lambda: filter_.spend(0.2777777)),
        upper=[0.3087001**2, 0.2**2, 0.2777777**2],
    )
    require_safe(
        message_of(lambda: bayesian(_TRAINING, gamma=0.1, delta=_DELTA, delta_2=2.000006e-4)),
        upper=[_DELTA, 2.000006e-4],
    )
    require_safe(
        message_of(lambda: agreed_gamma(0.0200001, measured=0.0942001)),
        upper=[0.0200001, 0.0942001],
    )
    require_safe(message_of(lambda: agreed_gamma(0.0200001, measured=None)), upper=[0.0200001])


def test_an_audit_prints_lower_bounds_rounded_down() -> None:
    found = AuditFinding(
        mechanism="votes",
        fault=None,
        claimed_epsilon=1.234564,
        claimed_mu=0.3,
        outcome=Outcome(canaries=1000, guesses=100, correct=60),
        lower_epsilon=0.5577777,
        lower_mu=0.16,
        delta=1e-6,
        confidence=0.95,
    )
    text = printed(lambda console: audits._print_table([[found]], console))
    require_safe(text, upper=[1.234564, 1e-6], lower=[0.5577777, found.lower_gaussian_epsilon])
    require_safe(audits._sentence(found), upper=[1.234564], lower=[0.5577777])
    wrong = replace(found, lower_epsilon=2.0)
    require_safe(message_of(lambda: audits._require_no_violation([wrong])), upper=[1.234564])


def test_the_tables_of_the_documentation_are_bounds() -> None:
    cells = re.findall(
        r"^\| ([\d.]+) \|(( \d\.\d\d \(\d\.\d\d\) \|){6})$",
        (ROOT / "docs/concepts.md").read_text(encoding="utf-8"),
        re.M,
    )
    assert [float(epsilon) for epsilon, *_ in cells] == [0.5, 1, 4]
    for epsilon, row, _ in cells:
        numbers = [float(number) for number in re.findall(r"[\d.]+", row)]
        for place, carriers in enumerate((1, 2, 5, 10, 20, 50)):
            true = advantages(carriers, epsilon=float(epsilon), delta=1e-6)
            for shown, bound in zip(numbers[2 * place :], true.values(), strict=False):
                assert bound <= shown < bound + 0.0101, (epsilon, carriers)


@pytest.mark.slow
def test_the_totals_of_repeated_releases_in_the_documentation_are_bounds() -> None:
    rows = re.findall(
        r"^\| ([\d.]+) \|" + r" ([\d.]+) \|" * 4 + "$",
        (ROOT / "docs/privacy.md").read_text(encoding="utf-8"),
        re.M,
    )
    assert len(rows) == 4
    requests = [
        BudgetRequest(name="metadata", share=0.1, count=0),
        BudgetRequest(name="votes", share=0.9, count=2),
    ]
    for epsilon, *totals in rows:
        plan = make_plan(requests, epsilon=float(epsilon), delta=1e-6)
        events = [allocation.event for allocation in plan.allocations]
        for releases, shown in zip((1, 4, 12, 52), totals, strict=True):
            total = epsilon_of if releases == 1 else adaptive_epsilon
            true = total(events * releases, delta=1e-6)
            assert true <= float(shown) <= 1.01 * true, (epsilon, releases)


# Names of numbers that bound a risk, and of noise. A longer name may contain them.
_BOUNDING = re.compile(
    r"(^|_)(epsilons?|delta|mu|gamma|cap|stddev|noise|multiplier|sensitivity|lower|upper|bound"
    r"|claimed|confidence|p_value|probability|posterior|advantage|rate|remaining|limit)(_|$)",
    re.IGNORECASE,
)
_FORMATS = re.compile(r"%[-+ #0-9.]*[gGfFeEd]")
_NO_BOUND = {
    "sugarbush/profiling/draft.py: bound",  # the ends of bins, which are released already
    "sugarbush/profiling/refinement.py: stddev",  # the number of parts of a bin
    "sugarbush/training/crt/train.py: rate",  # the number of steps of an epoch
    "sugarbush/training/dpsgd/sampling.py: rate",  # the number of steps
}


def _names(node: ast.AST) -> Iterator[str]:
    """Return the names of the values in an expression: the last part of `release.plan.delta`."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
        "rounded_up",
        "rounded_down",
    }:
        return
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        yield str(node.slice.value)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def _rounded_expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """Return every expression that a format or a function rounds to the nearest number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)
            if re.search(r"[gGfFeE%]\W*$", spec) or "." in spec:
                yield node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            left = node.left
            if isinstance(left, ast.Constant) and _FORMATS.search(str(left.value)):
                yield node.right
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in {"round", "format", "around", "number", "short_power"}:
                yield from node.args
                if isinstance(called, ast.Attribute):
                    yield called.value


def _program_files() -> list[Path]:
    return [
        path for folder in ("sugarbush", "flows", "tasks") for path in (ROOT / folder).rglob("*.py")
    ]


def test_no_code_rounds_a_bound_to_the_nearest_number() -> None:
    found = set()
    for path in _program_files():
        for expression in _rounded_expressions(ast.parse(path.read_text(encoding="utf-8"))):
            names = {name for name in _names(expression) if _BOUNDING.search(name)}
            found |= {f"{path.relative_to(ROOT)}: {name}" for name in names}
    assert found == _NO_BOUND, "print these numbers with rounded_up or rounded_down"


def _template_names(node: jinja2.nodes.Node) -> Iterator[str]:
    if isinstance(node, jinja2.nodes.Filter) and node.name in {"upper_bound", "lower_bound"}:
        return
    if isinstance(node, jinja2.nodes.Getattr):
        yield node.attr
    elif isinstance(node, jinja2.nodes.Name):
        yield node.name
    elif isinstance(node, jinja2.nodes.Getitem) and isinstance(node.arg, jinja2.nodes.Const):
        yield str(node.arg.value)
    else:
        for child in node.iter_child_nodes():
            yield from _template_names(child)


def test_no_template_rounds_a_bound_to_the_nearest_number() -> None:
    rounding = {"format", "round", "int", "number", "interval"}
    templates = [name for name in LOADER.list_templates() if name.endswith(".jinja")]
    assert len(templates) >= 6
    for name in templates:
        tree = TEMPLATES.parse(LOADER.get_source(TEMPLATES, name)[0])
        rounded = [
            *(node for node in tree.find_all(jinja2.nodes.Filter) if node.name in rounding),
            *tree.find_all(jinja2.nodes.Mod),
            *(
                node
                for node in tree.find_all(jinja2.nodes.Call)
                if isinstance(node.node, jinja2.nodes.Getattr) and node.node.attr == "format"
            ),
        ]
        for node in rounded:
            found = [n for n in _template_names(node) if _BOUNDING.search(n)]
            assert not found, f"{name}: print {found} with the filter upper_bound or lower_bound"

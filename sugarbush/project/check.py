"""`sugarbush check`: runs every check that spends no budget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sugarbush.data.misspellings import misspellings
from sugarbush.data.private_store import TRAIN
from sugarbush.data.reading import encoding_of_source
from sugarbush.data.remote import source_of
from sugarbush.data.schema import Schema
from sugarbush.embedding.class_sums import MOST_VALUES, left_out
from sugarbush.errors import FailureError, InputError, PoorRehearsalError
from sugarbush.evolution.scorers import ScoresAndClassSums
from sugarbush.generators.openai.address import is_unencrypted
from sugarbush.methods.interface import Method
from sugarbush.paths import find_input
from sugarbush.pipeline.dvc import require_current_stages
from sugarbush.pipeline.dvc_lock import restore_lock
from sugarbush.pipeline.flow import read_stages, spends, stale_stages
from sugarbush.pipeline.forecast import forecast_run
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.pipeline.stages import fingerprint
from sugarbush.preparation.corpus import read_corpus
from sugarbush.preparation.findings import CorpusFindings, corpus_findings, dropped_rows
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.settings import Purpose
from sugarbush.progress import working
from sugarbush.project.rehearsal_lines import show_rehearsal
from sugarbush.rehearsal.preflight import check_generator, check_labeller, notices
from sugarbush.rehearsal.rehearse import (
    refusal,
    rehearse,
    stored_rehearsal,
)
from sugarbush.run.context import Project
from sugarbush.run.ledgers import planned_line
from sugarbush.run.settings import FILE, load_params
from sugarbush.run.tools import label_of, labeller_of
from sugarbush.run.usable_inputs import (
    require_packages,
    require_usable_project,
    writes_another_domain,
)

DOMAIN_NOTICE = (
    "           but this generator writes texts of one domain, whatever your texts are.\n"
    "           Set generator.provider to openai, huggingface or pool for texts like yours"
)

DELTA_NOTICE = (
    "           but privacy.delta is above 1 / (number of records): a run would stop after its\n"
    "           first charge. Lower privacy.delta (not DP: do not share)"
)

UNMATCHED_NOTICE = (
    "           but no row has one of the listed values of '{0.attribute}': every record gets the\n"
    "           value `other`. Compare the spelling of the values in the schema and in the file."
)

UNUSED_NOTICE = (
    "           but no row has these listed values of '{0.attribute}': {0.shown}. If rows\n"
    "           should have them, compare the spelling in schema and file (not DP: do not share)"
)

LEFT_OUT_NOTICE = (
    "           but '{}' has too many values for noisy sums by class ({} in total, in the\n"
    "           order of the schema): its labels are read with donated texts alone"
)

MISSPELLING_NOTICE = (
    "           '{0.attribute}': no row has the listed value '{0.listed}', but {0.records:,} "
    "row(s) have '{0.found}'"
)


def run_checks(project: Project, console: Console, *, internal: bool = False) -> None:
    """Print one line for each passed check. Raises the error of the first failed check.

    With `internal`, also print the listed values that look misspelt. These lines are not DP.
    """
    settings = project.settings
    restore_lock(project.base)
    refuse_foreign_releases(project)
    require_packages(project.settings, project.base)
    console.print("settings   ok")
    if not example_is_made(project):
        console.print("data       the embedded example; `sugarbush run` writes it")
        _check_budget(project, console)
        return
    schema = project.schema
    count = len(schema.attributes)
    require_usable_project(project)
    console.print(f"schema     ok: {count} attribute{'s' if count != 1 else ''}")
    label_of(project)
    findings = corpus_findings(project)
    _print_data(project, findings, console, internal=internal)
    if (labeller := labeller_of(project)) is not None:
        with working("checking the endpoint of the labels"):
            check_labeller(project, labeller)
        for base_url in settings.extract_metadata.label_endpoint.base_urls:
            how = ", UNENCRYPTED over the network" if is_unencrypted(base_url) else ""
            what = "every private text" if settings.reads_codes else "the donated examples alone"
            console.print(f"labels     ok: {base_url} will receive {what}{how}")
    if any(method.facts.uses_encoder for method in settings.chosen):
        project.inputs.encoder(private=False).check()
        console.print(f"encoder    ok: {settings.embedding.model}")
    if any(method.facts.asks_generator for method in settings.chosen):
        _check_generator(project, console)
        for notice in notices(project):
            console.print(f"           but {notice}", markup=False, soft_wrap=True)
    for method in settings.chosen:
        method.preflight(schema, settings.training)
        if not method.facts.asks_generator:
            console.print(f"method     ok: {method.name}")
    print_left_out(settings.chosen, schema, console)
    if writes_another_domain(settings):  # the settings allow it
        console.print(DOMAIN_NOTICE, soft_wrap=True)
    _check_budget(project, console, findings.fingerprint)
    _check_first_texts(project, findings, console)


def _print_data(
    project: Project, findings: CorpusFindings, console: Console, *, internal: bool
) -> None:
    console.print(f"data       ok{_encoding(project)}")
    for line in dropped_rows(findings.tally):
        console.print(f"           {line} (not DP: do not share)", soft_wrap=True)
    if project.settings.privacy.is_large_delta(findings.tally.get(TRAIN, 0)):
        console.print(DELTA_NOTICE, soft_wrap=True)
    print_unmatched(findings, console)
    if internal:
        _print_misspellings(project, console)


def print_unmatched(findings: CorpusFindings, console: Console) -> None:
    """Name the listed values that no row has. These lines are exact and not DP."""
    for found in findings.unmatched:
        notice = UNMATCHED_NOTICE if found.by_all else UNUSED_NOTICE
        console.print(notice.format(found), markup=False, soft_wrap=True)


def print_left_out(methods: Sequence[Method], schema: Schema, console: Console) -> None:
    """Name the attributes that have too many values for sums by class."""
    scorers = [getattr(method, "record_scorer", None) for method in methods]
    if any(isinstance(scorer, ScoresAndClassSums) for scorer in scorers):
        for name in left_out(schema):
            notice = LEFT_OUT_NOTICE.format(name, MOST_VALUES)
            console.print(notice, markup=False, soft_wrap=True)


def _encoding(project: Project) -> str:
    """Name the encoding of the private file, unless it is UTF-8. No record decides it."""
    settings, setting = project.settings.prepare, "prepare.file"
    source = source_of(project.base, settings.file, setting=setting)
    encoding = encoding_of_source(source, setting=setting, options=settings.read_options)
    return "" if encoding in (None, "UTF-8") else f": read as {encoding}"


def _check_generator(project: Project, console: Console) -> None:
    """Check the generator. An endpoint that has answered a rehearsal is not asked again."""
    generator = project.settings.generator
    if generator.chosen.endpoint is not None and stored_rehearsal(project) is not None:
        console.print(f"generator  ok: {generator.provider}, by its earlier answers; nothing sent")
        return
    with working("checking the generator"):
        check_generator(project)
    console.print(f"generator  ok: {generator.provider}")


def _check_first_texts(project: Project, findings: CorpusFindings, console: Console) -> None:
    """Print the rehearsal. Raises PoorRehearsalError for a poor verdict that nobody accepted."""
    rehearsal = rehearse(project)
    if rehearsal is None:
        return
    show_rehearsal(rehearsal, console, run=forecast_run(project, rehearsal, findings))
    if rehearsal.is_poor and not rehearsal.accepted:
        raise PoorRehearsalError(refusal(rehearsal))


def _print_misspellings(project: Project, console: Console) -> None:
    project.ledger(rehearse=False).note_shown("check --internal")
    findings = misspellings(read_corpus(project).records(), project.schema)
    what = "listed values that look misspelt" if findings else "no listed value looks misspelt"
    console.print(f"spelling   {what} (not DP: do not share)")
    for finding in findings:
        console.print(MISSPELLING_NOTICE.format(finding), markup=False, soft_wrap=True)


def _check_budget(project: Project, console: Console, fingerprint: tuple[str, ...] = ()) -> None:
    require_current_stages(project.base)
    plan, ledger = project.plan, project.ledger()
    if example_is_made(project) and not would_spend(project):
        console.print("budget     ok: every stage that spends is up to date; a run spends nothing")
        return
    ledger.check([part.event for part in plan.allocations], dataset_fingerprint=fingerprint)
    console.print(
        f"budget     ok: a run plans {planned_line(project)} at delta {rounded_up(plan.delta)}; "
        f"spent so far {rounded_up(ledger.total())} of {rounded_up(ledger.cap)}"
    )


def example_is_made(project: Project) -> bool:
    """Return whether the corpus exists. The first run writes the corpus of the embedded example."""
    settings = project.settings
    example = settings.privacy.purpose is Purpose.EXAMPLE
    return not example or (project.base / settings.prepare.file).exists()


def schema_of_project(project: Project) -> Schema:
    """Return the schema. Raises InputError if no run has written the embedded example."""
    if not example_is_made(project):
        path = find_input(project.base, project.settings.prepare.schema_)
        raise InputError(f"{path}: the example does not exist yet. Write it with: sugarbush run")
    return project.schema


def would_spend(project: Project) -> bool:
    """Return whether a run would start a stage that spends budget. A stage counts even if it only
    restores results. If the settings differ from params.yaml, return True. To notice a changed
    corpus, this function first updates data/stamps, as every run does."""
    from dvc.lock import LockError

    if project.settings != load_params(project.base / FILE):
        return True
    try:
        with working("looking for changed files"):
            fingerprint.run(project, only_look=True)
            stale = stale_stages(read_stages(project.base), project.base)
    except LockError:
        raise FailureError(
            "another run is using this folder. Try again when it has ended"
        ) from None
    return spends(stale)

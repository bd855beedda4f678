"""Runs every check that spends no budget, and says what a run would spend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sugarbush.data.misspellings import misspellings
from sugarbush.data.private_store import TRAIN
from sugarbush.data.reading import column_names, encoding_of_source, reads_keys
from sugarbush.data.records import wanted_columns
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
from sugarbush.project.checked import Checked
from sugarbush.project.rehearsal import checked_texts
from sugarbush.rehearsal.preflight import check_generator, check_labeller, notices
from sugarbush.rehearsal.rehearse import refusal, rehearse, stored_rehearsal
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
    "but this generator writes texts of one domain, whatever your texts are.\n"
    "Set generator.provider to openai, huggingface or pool for texts like yours"
)

DELTA_NOTICE = (
    "but privacy.delta is above 1 / (number of records): a run would stop after its\n"
    "first charge. Lower privacy.delta (not DP: do not share)"
)

UNMATCHED_NOTICE = (
    "but no row has one of the listed values of '{0.attribute}': every record gets the\n"
    "value `other`. Compare the spelling of the values in the schema and in the file."
)

UNUSED_NOTICE = (
    "but no row has these listed values of '{0.attribute}': {0.shown}. If rows\n"
    "should have them, compare the spelling in schema and file (not DP: do not share)"
)

LEFT_OUT_NOTICE = (
    "but '{}' has too many values for noisy sums by class ({} in total, in the\n"
    "order of the schema): its labels are read with donated texts alone"
)

MISSPELLING_NOTICE = (
    "'{0.attribute}': no row has the listed value '{0.listed}', but {0.records:,} "
    "row(s) have '{0.found}'"
)


def checks(project: Project, *, internal: bool = False) -> Iterator[Checked]:
    """Run the checks one after the other, and yield what each found. Raises the error of the first
    failed check.

    With `internal`, also look for listed values that look misspelt. This result, and notes that say
    so, are not DP.
    """
    settings = project.settings
    restore_lock(project.base)
    refuse_foreign_releases(project)
    require_packages(project.settings, project.base)
    yield Checked(subject="settings", text="ok")
    if not example_is_made(project):
        yield Checked(subject="data", text="the embedded example; `sugarbush run` writes it")
        yield checked_budget(project)
        return
    schema = project.schema
    count = len(schema.attributes)
    require_usable_project(project)
    yield Checked(subject="schema", text=f"ok: {count} attribute{'s' if count != 1 else ''}")
    label_of(project)
    findings = corpus_findings(project)
    check_header_rows(project)
    yield from checked_data(project, findings)
    if internal:
        yield from checked_spelling(project)
    yield from _checked_labels(project)
    if any(method.facts.uses_encoder for method in settings.chosen):
        project.inputs.encoder(private=False).check()
        yield Checked(subject="encoder", text=f"ok: {settings.embedding.model}")
    if any(method.facts.asks_generator for method in settings.chosen):
        yield Checked(subject="generator", text=_check_generator(project))
        yield from (Checked(text=f"but {notice}") for notice in notices(project))
    yield from _checked_methods(project, schema)
    yield checked_budget(project, findings.fingerprint)
    yield from _first_texts(project, findings)


def checked_data(project: Project, findings: CorpusFindings) -> Iterator[Checked]:
    """Say how the data is read, which rows a run drops, and which listed values no row has."""
    yield Checked(subject="data", text=f"ok{_encoding(project)}")
    for line in dropped_rows(findings.tally):
        yield Checked(text=f"{line} (not DP: do not share)")
    if project.settings.privacy.is_large_delta(findings.tally.get(TRAIN, 0)):
        yield Checked(text=DELTA_NOTICE)
    yield from unmatched_notes(findings)


def unmatched_notes(findings: CorpusFindings) -> Iterator[Checked]:
    """Name the listed values that no row has. The notes are exact and not DP."""
    for found in findings.unmatched:
        notice = UNMATCHED_NOTICE if found.by_all else UNUSED_NOTICE
        yield Checked(text=notice.format(found))


def left_out_notes(methods: Sequence[Method], schema: Schema) -> Iterator[Checked]:
    """Name the attributes that have too many values for sums by class."""
    scorers = [getattr(method, "record_scorer", None) for method in methods]
    if any(isinstance(scorer, ScoresAndClassSums) for scorer in scorers):
        for name in left_out(schema):
            yield Checked(text=LEFT_OUT_NOTICE.format(name, MOST_VALUES))


def check_header_rows(project: Project) -> None:
    """Raise HeaderRowsError if the file shows header rows that would become records."""
    settings, setting = project.settings.prepare, "prepare.file"
    source = source_of(project.base, settings.file, setting=setting)
    if not reads_keys(source):
        wanted = wanted_columns(settings, project.schema, private=True)
        column_names(source, required=wanted, setting=setting, options=settings.read_options)


def _encoding(project: Project) -> str:
    """Name the encoding of the private file, unless it is UTF-8. No record decides it."""
    settings, setting = project.settings.prepare, "prepare.file"
    source = source_of(project.base, settings.file, setting=setting)
    encoding = encoding_of_source(source, setting=setting, options=settings.read_options)
    return "" if encoding in (None, "UTF-8") else f": read as {encoding}"


def _checked_labels(project: Project) -> Iterator[Checked]:
    """Check the endpoint of the labels, and say what each of its addresses will receive."""
    if (labeller := labeller_of(project)) is None:
        return
    with working("checking the endpoint of the labels"):
        check_labeller(project, labeller)
    what = "every private text" if project.settings.reads_codes else "the donated examples alone"
    for base_url in project.settings.extract_metadata.label_endpoint.base_urls:
        how = ", UNENCRYPTED over the network" if is_unencrypted(base_url) else ""
        yield Checked(subject="labels", text=f"ok: {base_url} will receive {what}{how}")


def _check_generator(project: Project) -> str:
    """Check the generator. An endpoint that has answered a rehearsal is not asked again."""
    generator = project.settings.generator
    if generator.chosen.endpoint is not None and stored_rehearsal(project) is not None:
        return f"ok: {generator.provider}, by its earlier answers; nothing sent"
    with working("checking the generator"):
        check_generator(project)
    return f"ok: {generator.provider}"


def _checked_methods(project: Project, schema: Schema) -> Iterator[Checked]:
    settings = project.settings
    for method in settings.chosen:
        method.preflight(schema, settings.training)
        if not method.facts.asks_generator:
            yield Checked(subject="method", text=f"ok: {method.name}")
    yield from left_out_notes(settings.chosen, schema)
    if writes_another_domain(settings):  # the settings allow it
        yield Checked(text=DOMAIN_NOTICE)


def checked_spelling(project: Project) -> Iterator[Checked]:
    """Name the listed values that look misspelt, and note in the ledger that they were shown."""
    project.ledger(rehearse=False).note_shown("check --internal")
    findings = misspellings(read_corpus(project).records(), project.schema)
    what = "listed values that look misspelt" if findings else "no listed value looks misspelt"
    yield Checked(subject="spelling", text=f"{what} (not DP: do not share)")
    for finding in findings:
        yield Checked(text=MISSPELLING_NOTICE.format(finding))


def checked_budget(project: Project, fingerprint: tuple[str, ...] = ()) -> Checked:
    """Check that the ledger would accept the planned charges on a corpus with this fingerprint."""
    require_current_stages(project.base)
    plan, ledger = project.plan, project.ledger()
    if example_is_made(project) and not would_spend(project):
        text = "ok: every stage that spends is up to date; a run spends nothing"
        return Checked(subject="budget", text=text)
    ledger.check(
        [allocation.event for allocation in plan.allocations], dataset_fingerprint=fingerprint
    )
    return Checked(
        subject="budget",
        text=f"ok: a run plans {planned_line(project)} at delta {rounded_up(plan.delta)}; "
        f"spent so far {rounded_up(ledger.total())} of {rounded_up(ledger.cap)}",
    )


def _first_texts(project: Project, findings: CorpusFindings) -> Iterator[Checked]:
    """Rehearse. Raises PoorRehearsalError for a poor verdict that nobody accepted."""
    if (rehearsal := rehearse(project)) is None:
        return
    yield checked_texts(rehearsal, run=forecast_run(project, rehearsal, findings))
    if rehearsal.is_poor and not rehearsal.accepted:
        raise PoorRehearsalError(refusal(rehearsal))


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

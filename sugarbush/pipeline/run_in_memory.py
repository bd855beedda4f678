"""Runs a method on a corpus in memory: the work of its stages, in order, in one process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sugarbush.attributes.reader import Labels
from sugarbush.errors import ParamsError
from sugarbush.methods.interface import (
    FinalSet,
    Initial,
    Method,
    MethodInputs,
    OneStageMethod,
    TrainedMethod,
)
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.pipeline.finished_run import FinishedRun
from sugarbush.pipeline.in_memory import Corpus, project_in_memory, with_assignments
from sugarbush.pipeline.metadata import MetadataRequest
from sugarbush.pipeline.method_stages import evolved, first_candidates, generated
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.reservation import Reservation
from sugarbush.quality.judge import judge
from sugarbush.quality.look import LookRequest, require_fit
from sugarbush.quality.measure import measure
from sugarbush.rehearsal.preflight import preflight
from sugarbush.rehearsal.rehearse import alternatives, rehearse
from sugarbush.release.figures import MeasuredFigures, MeasuredRelease
from sugarbush.release.labelled import with_labels
from sugarbush.report.true_labels import with_true_labels
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.tools import label_reader, method_inputs


def run_in_memory(
    corpus: Corpus,
    settings: ProjectSettings,
    method: Method,
    *,
    new_draw: bool,
    accept_poor: bool,
    report: Callable[[str], None],
) -> FinishedRun:
    """Draw the DP metadata, run the stages of `method`, and judge its texts.

    Each mechanism is charged before its noise is drawn. Finished results are restored, unless
    `new_draw` is true. Before the first charge, the encoder, the generator, the models and the
    generator's first texts are checked.
    """
    project = _with_best_prompts(project_in_memory(corpus, settings, accept_poor=accept_poor))
    with Reservation() as project.gate.reservation:
        if settings.looks:
            look = LookRequest(project).release(forced=new_draw).look
            report(f"first look: {look.line()}")
            require_fit(project, look, accept=accept_poor)
        metadata = MetadataRequest(project).release(
            forced=new_draw, before_charge=lambda: preflight(project)
        )
        inputs = method_inputs(
            project, method, stage="synthesize", metadata=metadata.value(), report=report
        )
        if not (metadata.described["engine"] or method.facts.asks_generator):
            method.preflight(project.schema, project.settings.training)  # nothing is paid for it
        if method.facts.pretrained is not None:
            from sugarbush.pipeline.stages.pretrain import write_models  # slow

            write_models(project.inputs.pretrained, project)
        first, final = run_stages_of(method, inputs, new_draw=new_draw)
        reader = label_reader(project, inputs.public.metadata, method)
        final, labels = with_labels(final, reader)
        figures = _figures(project, method, final, labels, forced=new_draw)
        measured = () if figures is None else figures.by_method[method.name]
        labels = with_true_labels(labels, measured)
        return FinishedRun(
            settings=project.settings,
            schema=project.schema,
            method=method,
            final=final,
            first=first,
            labels=labels,
            verdict=judge(
                final.lineage,
                labels,
                reader=reader,
                wanted=inputs.public.texts,
                measured=measured,
                look=project.look,
            ),
            metadata=metadata.released(),
            donated=project.inputs.examples(),
            ledger=project.ledger().snapshot(),
            plan=project.plan,
            looked=() if project.look is None else project.look.ledger_ids,
            figures=figures,
        )


def _figures(
    project: Project,
    method: Method,
    final: FinalSet,
    labels: Labels,
    *,
    forced: bool,
) -> MeasuredFigures | None:
    """Measure the public figures of a method with a DP guarantee, if the settings ask for them."""
    if not project.settings.figures_share or method.stays_private:
        return None
    ids = final.lineage.ledger_ids
    release = MeasuredRelease(texts=final.lineage.final.texts, labels=labels, ledger_ids=ids)
    return measure(project, {method.name: release}, forced=forced)


def run_stages_of(
    method: Method, inputs: MethodInputs, *, new_draw: bool
) -> tuple[Initial | None, FinalSet]:
    """Run the stages of a method in order. Return the first candidates, if any, and the texts."""
    if isinstance(method, TrainedMethod):
        return None, _trained(method, inputs, new_draw=new_draw)
    if isinstance(method, PartsMethod):
        first = first_candidates(method, inputs)
        candidates = Released(first.population, first.ledger_ids)
        return first, method.enlarge(inputs, evolved(method, inputs, candidates, forced=new_draw))
    assert isinstance(method, OneStageMethod)
    return None, evolved(method, inputs, None, forced=new_draw)


def _trained(method: TrainedMethod, inputs: MethodInputs, *, new_draw: bool) -> FinalSet:
    trained = method.finetune(inputs, forced=new_draw)
    if trained is None:
        raise ParamsError("synthesize trains in one process. Set training.processes: 1")
    folder = Path(tempfile.mkdtemp(prefix="sugarbush-model-"))
    try:
        trained.save(folder)
        model = Released(folder, trained.ledger_ids)
        return generated(method, inputs, model, forced=new_draw)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_best_prompts(project: Project) -> Project:
    """Return the project with the form of prompts that a rehearsal chooses, if there are several.

    The choice is repeated in each call, because another form is another run. Its answers are
    cached.
    """
    (method, *_) = project.settings.chosen
    if not method.facts.asks_generator or len(alternatives(project)) == 1:
        return project
    rehearsal = rehearse(project)
    if rehearsal is None or not rehearsal.changes:
        return project
    return project.with_settings(with_assignments(project.settings, rehearsal.changes))

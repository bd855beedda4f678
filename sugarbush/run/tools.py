"""Collects what a stage of a method may use: the generator, the encoder, and public values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sugarbush.data.lengths import lengths_of
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError, printable
from sugarbush.evolution.inputs import MetadataRelease, PublicInputs
from sugarbush.evolution.settings import FirstLength
from sugarbush.evolution.targets import Donated
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Generator, GeneratorContext, GeneratorSettings
from sugarbush.generators.shaped import in_shape
from sugarbush.methods.interface import Method, MethodInputs, PrivateInputs, Tools
from sugarbush.paths import find_input, make_private
from sugarbush.run.context import Project
from sugarbush.run.inputs import label_answers
from sugarbush.run.ledgers import open_store, uncapped_ledger
from sugarbush.run.records import corpus_of

if TYPE_CHECKING:  # slow imports
    from sugarbush.attributes.llm_labels import Labeller
    from sugarbush.attributes.reader import LabelReader


def _print(line: str) -> None:
    print(line, flush=True)


def method_inputs(
    project: Project,
    method: Method,
    *,
    stage: str,
    metadata: MetadataRelease,
    report: Callable[[str], None] = _print,
) -> MethodInputs:
    """Collect everything that a stage of a method may use."""
    settings, inputs = project.settings, project.inputs
    settings.privacy.check_delta(metadata.count)
    private = PrivateInputs(
        corpus=corpus_of(project),
        privacy=settings.privacy,
        plan=lambda: project.plan,
        digests=inputs.names(),
        encode=inputs.encoder(private=True).encode,
        ledger=project.ledger,
        uncapped_ledger=partial(uncapped_ledger, project),
        open_store=partial(open_store, project),
        scratch=inputs.scratch,
    )
    tools = Tools(
        writer=_writer_of(project, method),
        encode=inputs.encoder(private=False).encode,
        label_reader=lambda: label_reader(project, metadata, method),
        find=partial(find_input, project.base),
        training=settings.training,
        report=report,
        restart=("-m", f"tasks.{stage}", "--method", method.name),
    )
    public = public_values(project, metadata, donated=inputs.donated())
    return MethodInputs(private=private, public=public, tools=tools)


def public_values(
    project: Project, metadata: MetadataRelease, *, donated: Donated | None
) -> PublicInputs:
    """Collect the public values that a method may use."""
    settings = project.settings
    return PublicInputs(
        schema=schema_of_prompts(project),
        metadata=metadata,
        donated=donated,
        label=label_of(project),
        length=first_length(project),
        seed=settings.seed,
        again=settings.initialise.again,
        release=settings.release,
        privacy=settings.privacy,
        generator=settings.generator.identity(),
        example_sets=settings.generator.chosen.example_sets,
        follows_requests=settings.generator.chosen.follows_requests,
        embedding=settings.embedding.output_settings(),
        pretrained=project.inputs.pretrained,
        text_column=settings.prepare.text_column,
        mix=metadata.mix_of(settings.release, project.schema),
    )


def label_of(project: Project) -> str:
    """Return `synthesize_metadata.label`, or the first attribute of the schema. `augpe` starts
    from the DP counts of this attribute."""
    named = project.settings.synthesize_metadata.label
    schema = project.schema
    return schema.names[0] if named is None else schema.attribute(named).name


def first_length(project: Project) -> FirstLength:
    """Return the lengths that prompts request: as the settings say, else as the donated texts
    have, else as the first look released."""
    own = project.settings.initialise.length
    if own.numbers:
        return own
    look, donated = project.look, project.inputs.donated_texts()
    words = lengths_of(donated) if donated else look.words if look is not None else ()
    return own.model_copy(update={"words": words or None})


def schema_of_prompts(project: Project) -> Schema:
    """Return the schema, completed with the style and the lengths of the first look."""
    schema, look = project.schema, project.look
    if look is None:
        return schema
    changes: dict[str, Any] = {}
    if look.style and not schema.style:
        changes["style"] = look.style
    if look.lengths and schema.text is not None:
        requested = {**look.lengths, **schema.text.shape.requested}
        changes["text"] = schema.text.with_lengths(requested)
    return schema.model_copy(update=changes)


def label_reader(project: Project, metadata: MetadataRelease, method: Method) -> LabelReader:
    """Return the reader of the labels of a method's texts. All of its inputs are public or DP.

    The embeddings of texts of a method without a DP guarantee stay in the private cache.
    """
    from sugarbush.attributes.reader import LabelReader

    inputs, settings = project.inputs, project.settings
    donated, mix = inputs.donated(), metadata.mix_of(settings.release, project.schema)
    counts = metadata.counts_of(project.schema)
    return LabelReader(
        schema=project.schema,
        embed=inputs.encoder(private=method.stays_private).encode,
        requests_tell=not method.facts.asks_generator or settings.generator.chosen.follows_requests,
        examples=() if donated is None else donated.texts,
        codes=None if donated is None else donated.codes,
        readers=inputs.readers(),
        abstain=settings.extract_metadata.zero_shot_abstain,
        counts=counts if mix is None else metadata.mixed_counts(project.schema, mix),
        mix=mix,
    )


def generator_context(project: Project, stage: str) -> GeneratorContext:
    """Return the seed, folders and functions that the generator may use. The journal of paid
    calls records `stage`."""
    context = GeneratorContext(
        seed=project.settings.seed,
        state=project.state,
        account=project.settings.privacy.dataset,
        stage=stage,
        base=project.base,
        embed=project.inputs.encoder(private=False).encode,
        say=lambda line: print(printable(line), file=sys.stderr, flush=True),
        shape=project.schema.shape,
    )
    memory = project.inputs.memory
    return context if memory is None else replace(context, memory=memory)


def writer_of(project: Project, stage: str) -> Writer:
    """Open the generator, together with the maximum share of unusable answers."""
    section = project.settings.generator
    return Writer(
        generator=open_generator(project, section.chosen, stage),
        max_dropped_share=section.max_dropped_share,
    )


def open_generator(project: Project, settings: GeneratorSettings, stage: str) -> Generator:
    """Open a generator whose texts have the shape that the schema declares."""
    opened = settings.open(generator_context(project, stage))
    return in_shape(opened, project.schema.shape)


def labeller_of(project: Project) -> Labeller | None:
    """Return the endpoint for attributes with `source: llm`, or None without such attributes.
    Raises ParamsError if the endpoint is not trusted."""
    if not project.schema.asked_of_llm:
        return None
    from sugarbush.attributes.llm_labels import Labeller

    return Labeller(
        project.settings.extract_metadata.label_endpoint,
        project.schema.asked_of_llm,
        folder=make_private(label_answers(project.base)),
        account=project.settings.privacy.dataset,
    )


def _writer_of(project: Project, method: Method) -> Callable[[str], Writer]:
    """Return a function that opens the generator for a method that says that it asks it."""

    def refuse(stage: str) -> Writer:
        raise ParamsError(
            f"{stage}: method {method.name} asks the generator, but its `facts` do not say so "
            "(asks_generator=True). The card would not name the generator"
        )

    return partial(writer_of, project) if method.facts.asks_generator else refuse

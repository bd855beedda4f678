"""Declares every stage of the pipeline, in order, for dvc.yaml, the flow and the commands.

    make_example ─ fingerprint ─ prepare ─ extract_metadata ─ synthesize_metadata ─┐
       ┌───────────────────────────────────────────────────────────────────────────┘
       ├─ initialise@m ─ evolve@m ─ enlarge@m ─┬─ measure ──┐
       └─ pretrain ─ finetune@m ─ generate@m ──┼─ evaluate ─┼─ report
                                               └─ audit ────┘

Every stage depends on its settings and inputs. A stage that spends nothing also depends on all code
of the package and of its plug-ins, so none of its outputs stays after an upgrade. A stage that
spends budget depends on its own version number in place of code, because an edited comment must not
cost epsilon.
"""

from __future__ import annotations

from sugarbush import versions
from sugarbush.errors import ParamsError
from sugarbush.pipeline.stage import Output, Stage

STAMPS = "data/stamps"
_TEXTS, _CODES = f"{STAMPS}/train_texts.json", f"{STAMPS}/train_codes.json"
_SCHEMA, _POOL = f"{STAMPS}/schema.json", f"{STAMPS}/pool.json"
_PREPARED, _EXTRACTED = f"{STAMPS}/prepare.json", f"{STAMPS}/extract_metadata.json"
_INITIAL, _ENLARGED = "data/released/initial", "data/released/enlarge"
_MODELS, _GENERATED = "data/released/finetune", "data/released/generate"
_METHOD, _GENERATOR = "by_method.{method}", ("generator", "embedding")
_LEDGER = ("privacy.dataset", "privacy.purpose")
_METADATA, _DONATED = "data/released/metadata", "data/public/donated"
_FIGURES = "data/released/figures"
_LOOK = "data/released/look"
_PROMISE = (*_LEDGER, "privacy.unit", "privacy.records_per_user", "privacy.delta")


def _stamp(name: str, *, persist: bool = False) -> Output:
    return Output(path=f"{STAMPS}/{name}.json", keyed=True, persist=persist)


STAGES = (
    Stage(
        name="make_example",
        description="write the embedded example: corpus, schema and donated examples",
        inputs=("params.yaml",),
        outputs=(Output(path="data/public/example", persist=True),),
        always=True,
    ),
    Stage(
        name="fingerprint",
        description="write stamps of the input files, and the resolved settings",
        inputs=("data/public/example",),
        outputs=(
            *map(_stamp, ("corpus", "schema", "donated", "pool", "policy")),
            Output(path=f"{STAMPS}/settings.json", keyed=True),
        ),
        always=True,
    ),
    Stage(
        name="prepare",
        description="check the data file, and split the records into training and held-out records",
        inputs=(f"{STAMPS}/corpus.json", _SCHEMA, f"{STAMPS}/donated.json", _POOL),
        settings=("prepare", "privacy.unit", "privacy.records_per_user"),
        outputs=(_stamp("prepare", persist=True), _stamp("train_texts", persist=True)),
    ),
    Stage(
        name="extract_metadata",
        description="write one row of attribute values for each text",
        inputs=(_PREPARED, _SCHEMA, f"{STAMPS}/donated.json"),
        settings=("extract_metadata", "embedding", "prepare"),
        outputs=(
            _stamp("extract_metadata", persist=True),
            _stamp("train_codes", persist=True),
            Output(path=_DONATED),
        ),
    ),
    Stage(
        name="look",
        description="measure whether the generator fits the records, and how long they are",
        inputs=(_TEXTS, _CODES, _SCHEMA, _DONATED, _POOL),
        settings=(
            *("release.texts", "initialise", "seed", "methods", "by_method"),
            *(*_GENERATOR, "embedding", *_PROMISE),
        ),
        plan=("look",),
        version=versions.LOOK,
        outputs=(Output(path=_LOOK),),
        spends=True,
    ),
    Stage(
        name="synthesize_metadata",
        description="draw the DP metadata: a table by AIM, or DP counts of one attribute",
        inputs=(_CODES, _SCHEMA, _LOOK),
        settings=("synthesize_metadata", "seed", "methods", *_PROMISE),
        plan=("metadata",),
        version=versions.METADATA,
        outputs=(Output(path=_METADATA),),
        spends=True,
    ),
    Stage(
        name="initialise",
        description="write the first candidates from DP metadata and donated examples",
        inputs=(_METADATA, _LOOK, _DONATED, _SCHEMA, _POOL, _CODES),
        settings=(_METHOD, "initialise", "seed", *_GENERATOR, *_LEDGER),
        outputs=(Output(path="data/released/initial/{method}", persist=True),),
        by_method=True,
    ),
    Stage(
        name="evolve",
        description="run rounds of private votes and public variation",
        inputs=("data/released/initial/{method}", _LOOK, _TEXTS, _CODES, _SCHEMA, _POOL, _DONATED),
        settings=(
            *(_METHOD, "release.texts", "seed", *_GENERATOR, "synthesize_metadata.label"),
            *_PROMISE,
        ),
        plan=(_METHOD,),
        version=versions.EVOLUTION,
        outputs=(Output(path="data/released/evolve/{method}", persist=True),),
        spends=True,
        by_method=True,
    ),
    Stage(
        name="enlarge",
        description="write further texts up to the size of the release, from released values",
        inputs=(
            "data/released/evolve/{method}",
            _METADATA,
            _LOOK,
            _DONATED,
            _SCHEMA,
            _POOL,
            _CODES,
        ),
        settings=(
            _METHOD,
            "release.texts",
            "release.mix",
            "initialise",
            "seed",
            "extract_metadata",
            *_GENERATOR,
            *_LEDGER,
        ),
        plan=(_METHOD,),
        outputs=(Output(path="data/released/enlarge/{method}", persist=True),),
        by_method=True,
    ),
    Stage(
        name="pretrain",
        description="train the small models that training starts from, on public text",
        inputs=(_DONATED, _SCHEMA, _POOL),
        settings=("pretrain", "seed", "by_method"),
        outputs=(Output(path="data/public/pretrained"),),
    ),
    Stage(
        name="finetune",
        description="train a model on the private texts",
        inputs=(
            _TEXTS,
            _CODES,
            _SCHEMA,
            f"{STAMPS}/policy.json",
            _METADATA,
            "data/public/pretrained",
        ),
        settings=(_METHOD, "seed", "prepare.text_column", "privacy.epsilon", *_PROMISE),
        plan=("metadata", "by_method"),
        version=versions.TRAINING,
        outputs=(Output(path="data/released/finetune/{method}", persist=True),),
        spends=True,
        by_method=True,
    ),
    Stage(
        name="generate",
        description="write texts with the trained model",
        inputs=("data/released/finetune/{method}", _TEXTS, _METADATA, _DONATED, _SCHEMA),
        settings=(
            *(_METHOD, "seed", "training", "release.texts", "release.mix", "embedding"),
            *("extract_metadata", *_PROMISE),
        ),
        plan=(_METHOD,),
        version=versions.GENERATION,
        outputs=(Output(path="data/released/generate/{method}", persist=True),),
        spends=True,
        by_method=True,
    ),
    Stage(
        name="measure",
        description="measure public figures of the release, with noise",
        inputs=(_TEXTS, _CODES, _PREPARED, _EXTRACTED, _SCHEMA, _LOOK, _ENLARGED, _GENERATED),
        settings=(
            "evaluate.public",
            "release.accept_if",
            "seed",
            "methods",
            "embedding",
            *_PROMISE,
        ),
        plan=("figures",),
        version=versions.FIGURES,
        outputs=(Output(path=_FIGURES),),
        spends=True,
    ),
    Stage(
        name="evaluate",
        description="compare the texts of each round with held-out real texts (internal)",
        inputs=(_PREPARED, _EXTRACTED, _SCHEMA, _POOL, _DONATED, _INITIAL, _ENLARGED, _GENERATED),
        settings=("evaluate", "seed", "methods", "embedding", "extract_metadata", "generator"),
        outputs=(_stamp("evaluate", persist=True),),
    ),
    Stage(
        name="audit",
        description="attack the texts and the methods, on public data (internal)",
        inputs=(_PREPARED, _EXTRACTED, _SCHEMA, _ENLARGED, _GENERATED),
        settings=("audit", "methods", "by_method", "privacy", "embedding", "synthesize_metadata"),
        outputs=(_stamp("audit", persist=True),),
    ),
    Stage(
        name="report",
        description="write the release card, and the public and internal pages",
        inputs=(
            _DONATED,
            _METADATA,
            _LOOK,
            _INITIAL,
            _ENLARGED,
            _MODELS,
            _GENERATED,
            _FIGURES,
            f"{STAMPS}/evaluate.json",
            f"{STAMPS}/audit.json",
            _SCHEMA,
        ),
        settings=(
            "report",
            "publication",
            "evaluate.show",
            "evaluate.public",
            "release.accept_if",
            "release.mix",
            "audit",
            "methods",
            "by_method",
            "privacy",
            "extract_metadata",
            "generator",
            "embedding",
            "synthesize_metadata",
        ),
        outputs=(Output(path="reports/public", persist=True),),
    ),
)


def stage_named(name: str) -> Stage:
    """Return the stage `name`. Raises ParamsError for an unknown name."""
    for stage in STAGES:
        if stage.name == name:
            return stage
    raise ParamsError(f"no stage '{name}'. Stages: {', '.join(stage.name for stage in STAGES)}")

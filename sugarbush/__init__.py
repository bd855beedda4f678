"""Synthetic text under differential privacy: the public names.

    import sugarbush as sb
    release = sb.synthesize(frame, text="message", schema="schema.yaml",
                            generator=sb.OpenAI(model="my-model", base_url="http://…/v1"),
                            privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="tickets"))
    release.texts, release.card, release.epsilon

Names are imported when they are first used, so that `import sugarbush` is quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sugarbush.api import (
        PrivateModel,
        Redaction,
        Release,
        dp_table,
        evaluate,
        open_ledger,
        open_schema,
        prepare,
        private_histogram,
        redact,
        synthesize,
        train_dpsgd,
    )
    from sugarbush.data.schema import Attribute, Schema
    from sugarbush.errors import (
        BudgetExceededError,
        GeneratorError,
        InputError,
        LedgerError,
        ParamsError,
        PrivacyError,
        SchemaError,
        SugarbushError,
    )
    from sugarbush.evaluation.interface import Metric, MetricValue
    from sugarbush.examples.generator import Simulator
    from sugarbush.generators.huggingface.settings import HuggingFace
    from sugarbush.generators.interface import GeneratorSettings
    from sugarbush.generators.openai.settings import OpenAI
    from sugarbush.generators.pool import Pool
    from sugarbush.methods.augpe import AugPE
    from sugarbush.methods.crt import CRT
    from sugarbush.methods.dpft import DPFT
    from sugarbush.methods.interface import Method, MethodInputs
    from sugarbush.methods.maple import Maple
    from sugarbush.methods.nonprivate import NonPrivatePE
    from sugarbush.methods.public import Public
    from sugarbush.pipeline.artifacts import Artifacts
    from sugarbush.pipeline.in_memory import Corpus
    from sugarbush.privacy.accounting import epsilon
    from sugarbush.privacy.data_types import Private, Released
    from sugarbush.privacy.ledger import Ledger
    from sugarbush.privacy.session import PrivacySession
    from sugarbush.privacy.settings import PrivacySettings as Privacy

_API = "sugarbush.api"
_ERRORS = "sugarbush.errors"
_NAMES = {
    "Artifacts": "sugarbush.pipeline.artifacts",
    "Attribute": "sugarbush.data.schema",
    "AugPE": "sugarbush.methods.augpe",
    "BudgetExceededError": _ERRORS,
    "CRT": "sugarbush.methods.crt",
    "Corpus": "sugarbush.pipeline.in_memory",
    "DPFT": "sugarbush.methods.dpft",
    "GeneratorError": _ERRORS,
    "GeneratorSettings": "sugarbush.generators.interface",
    "HuggingFace": "sugarbush.generators.huggingface.settings",
    "InputError": _ERRORS,
    "Ledger": "sugarbush.privacy.ledger",
    "LedgerError": _ERRORS,
    "Maple": "sugarbush.methods.maple",
    "Method": "sugarbush.methods.interface",
    "MethodInputs": "sugarbush.methods.interface",
    "Metric": "sugarbush.evaluation.interface",
    "MetricValue": "sugarbush.evaluation.interface",
    "NonPrivatePE": "sugarbush.methods.nonprivate",
    "OpenAI": "sugarbush.generators.openai.settings",
    "ParamsError": _ERRORS,
    "Pool": "sugarbush.generators.pool",
    "Privacy": "sugarbush.privacy.settings:PrivacySettings",
    "PrivacyError": _ERRORS,
    "PrivacySession": "sugarbush.privacy.session",
    "Private": "sugarbush.privacy.data_types",
    "PrivateModel": _API,
    "Public": "sugarbush.methods.public",
    "Redaction": _API,
    "Release": _API,
    "Released": "sugarbush.privacy.data_types",
    "Schema": "sugarbush.data.schema",
    "SchemaError": _ERRORS,
    "Simulator": "sugarbush.examples.generator",
    "SugarbushError": _ERRORS,
    "dp_table": _API,
    "epsilon": "sugarbush.privacy.accounting",
    "evaluate": _API,
    "open_ledger": _API,
    "open_schema": _API,
    "prepare": _API,
    "private_histogram": _API,
    "redact": _API,
    "synthesize": _API,
    "train_dpsgd": _API,
}
__all__ = [
    "Artifacts",
    "Attribute",
    "AugPE",
    "BudgetExceededError",
    "CRT",
    "Corpus",
    "DPFT",
    "GeneratorError",
    "GeneratorSettings",
    "HuggingFace",
    "InputError",
    "Ledger",
    "LedgerError",
    "Maple",
    "Method",
    "MethodInputs",
    "Metric",
    "MetricValue",
    "NonPrivatePE",
    "OpenAI",
    "ParamsError",
    "Pool",
    "Privacy",
    "PrivacyError",
    "PrivacySession",
    "Private",
    "PrivateModel",
    "Public",
    "Redaction",
    "Release",
    "Released",
    "Schema",
    "SchemaError",
    "Simulator",
    "SugarbushError",
    "dp_table",
    "epsilon",
    "evaluate",
    "open_ledger",
    "open_schema",
    "prepare",
    "private_histogram",
    "redact",
    "synthesize",
    "train_dpsgd",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        try:
            return version("sugarbush")
        except PackageNotFoundError:
            return "unknown"
    if name not in _NAMES:
        raise AttributeError(f"module 'sugarbush' has no attribute {name!r}")
    module, _, other = _NAMES[name].partition(":")
    value = getattr(import_module(module), other or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])

"""Synthetic text under differential privacy: the public names.

    import sugarbush as sb
    corpus = sb.prepare(frame, text="message", schema="schema.yaml",
                        generator=sb.OpenAI(model="my-model", base_url="http://…/v1"),
                        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="tickets"))
    release = sb.synthesize(corpus)
    release.texts, release.card, release.epsilon

Names are imported when they are first used, so that `import sugarbush` is quick.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.api.evaluation import Evaluation as Evaluation
    from sugarbush.api.evaluation import evaluate as evaluate
    from sugarbush.api.ledgers import open_ledger as open_ledger
    from sugarbush.api.ledgers import plan_weeks as plan_weeks
    from sugarbush.api.open_release import open_release as open_release
    from sugarbush.api.profile import Profile as Profile
    from sugarbush.api.profile import profile as profile
    from sugarbush.api.release import Release as Release
    from sugarbush.api.schemas import open_schema as open_schema
    from sugarbush.api.synthesis import prepare as prepare
    from sugarbush.api.synthesis import synthesize as synthesize
    from sugarbush.api.tables import dp_table as dp_table
    from sugarbush.api.tables import private_histogram as private_histogram
    from sugarbush.api.threads import conversations as conversations
    from sugarbush.api.training import PrivateModel as PrivateModel
    from sugarbush.api.training import train_dpsgd as train_dpsgd
    from sugarbush.data.schema import Attribute as Attribute
    from sugarbush.data.schema import Schema as Schema
    from sugarbush.errors import BudgetExceededError as BudgetExceededError
    from sugarbush.errors import GeneratorError as GeneratorError
    from sugarbush.errors import InputError as InputError
    from sugarbush.errors import LedgerError as LedgerError
    from sugarbush.errors import ParamsError as ParamsError
    from sugarbush.errors import PrivacyError as PrivacyError
    from sugarbush.errors import PrivateFactWarning as PrivateFactWarning
    from sugarbush.errors import SchemaError as SchemaError
    from sugarbush.errors import SugarbushError as SugarbushError
    from sugarbush.evaluation.interface import Metric as Metric
    from sugarbush.evaluation.interface import MetricValue as MetricValue
    from sugarbush.examples.generator import Simulator as Simulator
    from sugarbush.generators.huggingface.settings import HuggingFace as HuggingFace
    from sugarbush.generators.interface import GeneratorSettings as GeneratorSettings
    from sugarbush.generators.openai.settings import OpenAI as OpenAI
    from sugarbush.generators.pool import Pool as Pool
    from sugarbush.methods.augpe import AugPE as AugPE
    from sugarbush.methods.crt import CRT as CRT
    from sugarbush.methods.dpft import DPFT as DPFT
    from sugarbush.methods.interface import Method as Method
    from sugarbush.methods.interface import MethodInputs as MethodInputs
    from sugarbush.methods.maple import Maple as Maple
    from sugarbush.methods.mosaic import Mosaic as Mosaic
    from sugarbush.methods.nonprivate import NonPrivatePE as NonPrivatePE
    from sugarbush.methods.public import Public as Public
    from sugarbush.pipeline.artifacts import Artifacts as Artifacts
    from sugarbush.pipeline.in_memory import Corpus as Corpus
    from sugarbush.privacy.accounting import epsilon as epsilon
    from sugarbush.privacy.data_types import Private as Private
    from sugarbush.privacy.data_types import Released as Released
    from sugarbush.privacy.ledger import Ledger as Ledger
    from sugarbush.privacy.session import PrivacySession as PrivacySession
    from sugarbush.privacy.settings import PrivacySettings
    from sugarbush.project.weeks import WeeklyPlan as WeeklyPlan
    from sugarbush.redactor.api import Redaction as Redaction
    from sugarbush.redactor.api import redact as redact
    from sugarbush.training.dpsgd.settings import FineTuning as FineTuning

    Privacy = PrivacySettings
    __version__: str
else:
    _find = lazy_names(__name__)

    def __getattr__(name: str) -> Any:
        if name != "__version__":
            return _find(name)
        try:
            return version("sugarbush")
        except PackageNotFoundError:
            return "unknown"

    def __dir__() -> list[str]:
        return sorted([*globals(), *_find("__all__")])

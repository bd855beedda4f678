"""The public names for authors of methods and formats. `docs/how-to/add-a-method.md` and
`docs/how-to/add-a-format.md` explain them.

Method          a method and its settings: PartsMethod, OneStageMethod, TrainedMethod
MethodInputs    everything that a method may use: private data, public data, tools
Start           the attribute values and examples of the first texts
Scorer          what one record gives to each candidate
Selector        which candidates survive a round
Varier          the requests for variations of the survivors
Enlarger        the texts of the release
Lineage         the texts of a method, with their candidates and noisy scores
Private         data of the records: only a mechanism can turn it into a number
Released        a value with the ids of the charges that pay for it
mechanisms      noisy_histogram and noisy_sum: a charge, then noise
BudgetRequest   a mechanism that a method needs, declared before the first draw
Format          reads one kind of input file; TextFormat one kind of text file
Reading         what a format needs: the wanted columns, options; its rows are Row, a part is a Span
"""

from sugarbush.data.formats.interface import Format, TextFormat
from sugarbush.data.formats.rows import WHOLE, Reading, Row, Span, add_paths
from sugarbush.data.remote import File
from sugarbush.evolution.enlargers import ByPredictedScores, MostVoted
from sugarbush.evolution.inputs import MetadataRelease, PublicInputs
from sugarbush.evolution.parts import (
    Candidates,
    Encode,
    Enlarger,
    Lineage,
    Parts,
    Records,
    Round,
    Scored,
    Scorer,
    Selector,
    Start,
    Varier,
)
from sugarbush.evolution.population import Population
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.scorers import KernelScorer, NearestVotes
from sugarbush.evolution.selectors import ByHerding, ByRank
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import FromLabels, FromTable, Open
from sugarbush.evolution.targets import Targets, targets_by_rows
from sugarbush.evolution.variation import FillIn
from sugarbush.generators.interface import (
    Answer,
    RandomRequest,
    Request,
    Usage,
    VariationRequest,
    usage_of,
)
from sugarbush.methods.interface import (
    FinalSet,
    Method,
    MethodContext,
    MethodFacts,
    MethodInputs,
    OneStageMethod,
    PlannedCalls,
    Planning,
    TrainedMethod,
    TrainedModel,
)
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.methods.private_evolution import PromptSettings
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.mechanisms import noisy_histogram, noisy_sum
from sugarbush.randomness import public_rng, seed_of
from sugarbush.settings import AtLeastOne, Count

__all__ = [
    "Answer",
    "Method",
    "Round",
    "TrainedModel",
    "VariationRequest",
    "AtLeastOne",
    "BudgetRequest",
    "ByHerding",
    "ByPredictedScores",
    "ByRank",
    "Candidates",
    "Count",
    "Encode",
    "Enlarger",
    "File",
    "FillIn",
    "FinalSet",
    "Format",
    "FromLabels",
    "FromTable",
    "KernelScorer",
    "Lineage",
    "MetadataRelease",
    "MethodFacts",
    "MethodInputs",
    "MostVoted",
    "NearestVotes",
    "OneStageMethod",
    "Open",
    "Parts",
    "PartsMethod",
    "PlannedCalls",
    "Planning",
    "Population",
    "Private",
    "MethodContext",
    "PromptContent",
    "PromptSettings",
    "Prompts",
    "PublicInputs",
    "RandomRequest",
    "Reading",
    "Records",
    "Released",
    "Request",
    "Scored",
    "Scorer",
    "Row",
    "Selector",
    "Span",
    "TextFormat",
    "WHOLE",
    "add_paths",
    "Start",
    "Targets",
    "TrainedMethod",
    "Usage",
    "Varier",
    "noisy_histogram",
    "noisy_sum",
    "public_rng",
    "seed_of",
    "targets_by_rows",
    "usage_of",
]

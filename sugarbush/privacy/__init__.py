"""Private and released data, mechanisms and their noise, accounting, and the ledger."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.privacy.accounting import Relation as Relation
    from sugarbush.privacy.accounting import rounded_down as rounded_down
    from sugarbush.privacy.accounting import rounded_up as rounded_up
    from sugarbush.privacy.budget import BudgetRequest as BudgetRequest
    from sugarbush.privacy.budget import Subsampling as Subsampling
    from sugarbush.privacy.budget import make_plan as make_plan
    from sugarbush.privacy.budget import with_subsampling as with_subsampling
    from sugarbush.privacy.events import DiscreteGaussian as DiscreteGaussian
    from sugarbush.privacy.events import GaussianDp as GaussianDp
    from sugarbush.privacy.events import PoissonGaussian as PoissonGaussian
    from sugarbush.privacy.fingerprint import make_dataset_fingerprint as make_dataset_fingerprint
    from sugarbush.privacy.key import state_key as state_key
    from sugarbush.privacy.mechanisms import noisy_histogram as noisy_histogram
    from sugarbush.privacy.mechanisms import noisy_sum as noisy_sum
    from sugarbush.privacy.results import digest_of as digest_of
    from sugarbush.privacy.session import PlannedDraws as PlannedDraws
    from sugarbush.privacy.settings import Purpose as Purpose
else:
    __getattr__ = lazy_names(__name__)

"""Attacks on mechanisms, methods and texts. An attack that fails proves nothing."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.audits.one_run import Outcome as Outcome
    from sugarbush.audits.one_run import epsilon_lower_bound as epsilon_lower_bound
    from sugarbush.audits.one_run import guess_extremes as guess_extremes
    from sugarbush.audits.one_run import mu_lower_bound as mu_lower_bound
    from sugarbush.audits.one_run import outcome_of as outcome_of
    from sugarbush.audits.one_run import p_value as p_value
    from sugarbush.audits.phantoms import Disclosure as Disclosure
    from sugarbush.audits.phantoms import disclosure as disclosure
    from sugarbush.audits.phantoms import phrases as phrases
    from sugarbush.audits.repeated_runs import mu_lower_bound_of_runs as mu_lower_bound_of_runs
else:
    __getattr__ = lazy_names(__name__)

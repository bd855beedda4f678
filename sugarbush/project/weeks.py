"""Plans the releases of many weeks under the cap of a dataset, with measured quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.schedule import (
    TREE_IS_BETTER_FROM,
    EventsAt,
    Schedule,
    TreeNoise,
    schedules,
    tree_noise,
)
from sugarbush.privacy.unit import Unit
from sugarbush.run.context import Project
from sugarbush.yaml_files import load_yaml

_FILE = "measured_quality.yaml"
NOT_MEASURED = "not measured"
COLUMNS = ("new draw", "times", "epsilon", "total", "noise", "MAUVE, measured")


@dataclass(frozen=True, kw_only=True)
class WeeklyPlan:
    """What the rest of a cap allows in `weeks` weeks. Nothing is charged.

    `schedules` contains equal releases on all records, the most often first. `tree` is the noise of
    running totals by a binary tree, which no method draws. `quality` says for each schedule what
    the log measured at its epsilon or at the next smaller one. `rows` and `notes` say it in words.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     plan = sb.plan_weeks(52, privacy=sb.Privacy(dataset="tickets"), state=state)
    >>> [(each.releases, each.epsilon) for each in plan.schedules][:2]
    [(52, 0.46), (26, 0.67)]
    """

    weeks: int
    dataset: str
    unit: Unit
    delta: float
    cap: float
    spent: float
    schedules: tuple[Schedule, ...]
    quality: tuple[str, ...]
    tree: TreeNoise

    @property
    def tree_is_better(self) -> bool:
        """Whether each total of a tree has less noise than a new draw in every week."""
        return self.weeks >= TREE_IS_BETTER_FROM

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each schedule, as in `COLUMNS`. The total is rounded up."""
        for each, quality in zip(self.schedules, self.quality, strict=True):
            weeks = each.weeks_between
            often = "every week" if weeks == 1 else f"every {weeks} weeks"
            yield (
                "once" if each.releases == 1 else often,
                str(each.releases),
                rounded_down(each.epsilon),
                rounded_up(each.total, 3),
                rounded_down(each.noise, 2),
                quality,
            )

    def notes(self) -> Iterator[str]:
        """Yield what the table of schedules does not say."""
        tree, better = self.tree, "less" if self.tree_is_better else "not always less"
        yield (
            "Epsilon is that of each release: set it as privacy.epsilon, and the days between two "
            "draws as privacy.days_between_draws. Noise is relative to one release that spends all "
            "that is left."
        )
        yield f"Quality: {measured_conditions()}. A growing corpus was not measured."
        yield (
            f"By a binary tree, a sum that adds up over {self.weeks} weeks has noise "
            f"{tree.mean:.1f} in the mean and {tree.most:.1f} at most, {better} than new draws in "
            f"every week (always less from {TREE_IS_BETTER_FROM} weeks on). It needs records that "
            "arrive in one week only. No method draws by a tree: each draws its table and its "
            "scores from all records, on texts that change."
        )
        yield (
            f"If no {_name(self.unit)} is in the files of two weeks, each week may be a dataset of "
            f"its own, with the whole cap of {rounded_up(self.cap)}: set privacy.dataset to a new "
            "name, and name the other weeks in privacy.different_from. Its texts are then of that "
            "week alone."
        )


def _name(unit: Unit) -> str:
    return "person" if unit is Unit.USER else "record or person"


def weekly_plan(project: Project, weeks: int) -> WeeklyPlan:
    """Return what the rest of the cap allows a project in `weeks` weeks, by its own plan.

    Raises ParamsError for a number of weeks that is too small or too large.
    """
    settings = project.settings

    def events_at(epsilon: float) -> tuple[Event, ...]:
        privacy = settings.privacy.model_copy(update={"epsilon": epsilon})
        other = project.with_settings(settings.model_copy(update={"privacy": privacy}))
        return other.plan.planned.events

    names = tuple(settings.methods.by_name)
    return plan_of_weeks(project.ledger(rehearse=False), events_at, weeks=weeks, methods=names)


def plan_of_weeks(
    ledger: Ledger, events_at: EventsAt, *, weeks: int, methods: tuple[str, ...]
) -> WeeklyPlan:
    """Return what the rest of the cap allows in `weeks` weeks, for runs that `events_at` plans."""
    found = schedules(ledger, events_at, weeks=weeks)
    return WeeklyPlan(
        weeks=weeks,
        dataset=ledger.dataset,
        unit=ledger.unit,
        delta=ledger.delta,
        cap=ledger.cap,
        spent=ledger.total(),
        schedules=found,
        quality=tuple(measured_quality(each.epsilon, methods) for each in found),
        tree=tree_noise(weeks),
    )


def measured_quality(epsilon: float, methods: tuple[str, ...]) -> str:
    """Return what the log measured at the largest epsilon up to `epsilon`, for a single method.

    >>> measured_quality(0.46, ("mosaic",)), measured_quality(0.2, ("mosaic",))
    ('0.92 to 0.98 at epsilon 0.3', 'not measured')
    """
    if len(methods) != 1 or methods[0] not in _log()["methods"]:
        return NOT_MEASURED
    rows = _log()["methods"][methods[0]]
    below = [each for each in rows if each <= epsilon]
    if not below:
        return NOT_MEASURED
    values = rows[max(below)]
    return f"{min(values):.2f} to {max(values):.2f} at epsilon {rounded_down(max(below))}"


def measured_conditions() -> str:
    """Say what was measured, how, and where the numbers are."""
    log = _log()
    return f"{log['metric']} on four public sets ({log['conditions']}; {log['source']})"


@cache
def _log() -> Mapping[str, dict[str, dict[float, list[float]]]]:
    text = files("sugarbush.project").joinpath(_FILE).read_text(encoding="utf-8")
    return dict(load_yaml(text))

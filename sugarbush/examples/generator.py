"""Registers the simulator as a generator plug-in."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sugarbush.generators.interface import Generator, GeneratorContext, GeneratorSettings
from sugarbush.settings import NOT_IN_OUTPUT


class Simulator(GeneratorSettings):
    """Writes customer-service texts from a grammar, without a key or a model.

    >>> Simulator().facts().provider
    'simulator'
    """

    name: ClassVar[str] = "simulator"
    one_domain: ClassVar[bool] = True

    any_texts: Annotated[bool, NOT_IN_OUTPUT] = False
    """Allows the simulator for your own texts, although it writes only customer-service texts."""

    @property
    def allowed_for_any_texts(self) -> bool:
        return self.any_texts

    def open(self, context: GeneratorContext) -> Generator:
        from sugarbush.examples.simulator.writer import SimulatorWriter

        return SimulatorWriter(seed=context.seed)

"""Registers the simulator as a generator plug-in."""

from __future__ import annotations

from typing import ClassVar

from sugarbush.generators.interface import Generator, GeneratorContext, GeneratorSettings


class Simulator(GeneratorSettings):
    """Writes customer-service texts from a grammar, without a key or a model.

    >>> Simulator().facts().provider
    'simulator'
    """

    name: ClassVar[str] = "simulator"
    one_domain: ClassVar[bool] = True

    def open(self, context: GeneratorContext) -> Generator:
        from sugarbush.examples.simulator.writer import Simulator as Writer

        return Writer(seed=context.seed)

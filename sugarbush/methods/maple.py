"""MAPLE: first candidates from DP metadata and donated examples, then two rounds of votes.

Source: Chien et al. 2026.
"""

from __future__ import annotations

from typing import ClassVar

from sugarbush.evolution.parts import Parts
from sugarbush.evolution.starts import FromTable
from sugarbush.methods.private_evolution import PrivateEvolution


class Maple(PrivateEvolution):
    """MAPLE. Each first candidate gets the attribute values of a row of AIM's DP table.

    >>> [request.name for request in Maple(rounds=2).budget_requests()]
    ['metadata', 'votes:maple']
    """

    name: ClassVar[str] = "maple"

    def parts(self) -> Parts:
        return self.with_rounds(FromTable(self.prompts()))

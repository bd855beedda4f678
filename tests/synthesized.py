"""Synthesizes from a frame in one call."""

from __future__ import annotations

from inspect import signature
from typing import Any

import sugarbush as sb


def synthesize_frame(frame: Any, **arguments: Any) -> sb.Release:
    """Prepare `frame` and synthesize from it. Each argument goes to the function that has it, and
    `settings` to `prepare`."""
    prepared = {
        name: arguments.pop(name) for name in signature(sb.prepare).parameters if name in arguments
    }
    return sb.synthesize(sb.prepare(frame, **prepared), **arguments)

"""Named, seeded, public randomness.

Use it for prompts, plots, bootstrap resamples and sampling from released values. Never use it for
noise or for choosing private records: both are part of a mechanism and come from
`sugarbush.privacy.noise`, which takes no seed.
"""

import hashlib

import numpy as np

# For type annotations: other modules use the generators of `public_rng`, and must not make one.
Rng = np.random.Generator


def seed_of(seed: int, *names: str | int) -> int:
    """Return a 64-bit seed that depends on every name and is equal on every machine."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def public_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Make a generator for one named purpose. Generators with other names are independent."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, *names)))


def hash_share(text: str) -> float:
    """Return a number in [0, 1) that depends on `text` alone, so it is the same in every file. The
    number decides which texts are public and which records are held out. So one more record does
    not change this decision for any other record."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64

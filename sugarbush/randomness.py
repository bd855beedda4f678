"""Named, seeded, public randomness.

Use this module for prompts, plots, bootstrap resamples and samples of released values. Noise and
samples of private records come only from `sugarbush.privacy.noise`, which accepts no seed.
"""

import hashlib

import numpy as np

# Other modules use this type only in annotations. Generators come from `public_rng`.
Rng = np.random.Generator


def seed_of(seed: int, *names: str | int) -> int:
    """Return a 64-bit seed that depends on `seed` and every name, equal on every machine."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def public_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return a generator for one named purpose. Other names give independent generators."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, *names)))


def hash_share(text: str) -> float:
    """Return a number in [0, 1) that depends on `text` alone.

    The number decides which texts are public and which records are held out. One more record
    therefore does not change the decision for any other record.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64

"""Versions of the algorithms that read private data.

Increase a version if a change gives another result for equal settings and inputs. Results of an
older version are then drawn and charged again.
"""

EXTRACTION = 2  # 2: case and spaces around a listed value do not matter
METADATA = 3
EVOLUTION = 1
TRAINING = 1
GENERATION = 1
CRT = 4
PROFILE = 1
FIGURES = 1

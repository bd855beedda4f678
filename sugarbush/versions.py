"""Versions of what is drawn from private data.

Raise one when a change makes equal settings and inputs mean another result. Finished draws of an
older version are then drawn, and charged, again.
"""

METADATA = 3
EVOLUTION = 1
TRAINING = 1
CRT = 3

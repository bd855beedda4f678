"""Versions of the algorithms that read private data.

Increase a version if a change gives another result for equal settings and inputs. Results of an
older version are then drawn and charged again.
"""

# 2: case and spaces around a listed value do not matter
# 3: keywords match inside scripts without spaces; numbers and dates of a type
EXTRACTION = 3
# 4: a table contains its measured cliques; 5: AIM in three rounds, with groups of values
METADATA = 5
EVOLUTION = 1
TRAINING = 1
GENERATION = 1
CRT = 4
# 2: in scripts without spaces, a character is a word; 3: years of dates, and whole numbers;
# 4: numbers with leading zeros are texts; 5: finer bins of numbers and dates
PROFILE = 5
FIGURES = 1
LOOK = 1

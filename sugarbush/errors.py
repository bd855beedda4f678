"""The exceptions that Sugarbush raises.

    SugarbushError             shown to the operator as one message, never as a traceback
      UsageError               exit code 2: the caller can fix settings or input
        ParamsError            params.yaml
          ArgumentError        an argument of a class of settings; also a ValueError
        SchemaError            the schema file
        InputError             the user's data file
        MissingInputError      a file that an earlier stage should have written
      FailureError             exit code 1: the run could not continue
        GeneratorError         a generator of candidates failed or returned too little
        StorageError           a file could not be read or written
        PrivacyError           continuing would break the guarantee
          BudgetExceededError  a charge would exceed the cap
          LedgerError          the ledger cannot be read, written or trusted
      PoorFitError             exit code 3: the first look shows that the generator does not fit
      PoorReleaseError         exit code 3: a release is finished, and its verdict is poor
      RefusedReleaseError      exit code 4: a release is finished, and its rule refuses it
    InvariantError             a bug in Sugarbush; not a SugarbushError
    PrivateFactWarning         a warning with an exact fact about private rows, for the caller alone

A message says what is wrong, where, and what to do. A message may contain a file name, a row number
and a setting, but never a text or another private value.
"""


class SugarbushError(Exception):
    """A failure that the operator sees as one message."""

    exit_code = 1


class UsageError(SugarbushError):
    """The caller's settings or input cannot be used."""

    exit_code = 2


class ParamsError(UsageError):
    """A setting is missing, unknown or out of range."""


class ArgumentError(ParamsError, ValueError):
    """An argument of a class of settings is unknown or out of range."""


class PoorRehearsalError(ParamsError):
    """The generator's first texts are too poor for a release. No budget was spent."""


class SchemaError(UsageError):
    """The schema file does not describe attributes with public values."""


class InputError(UsageError):
    """The user's data file cannot be used."""


class MissingInputError(UsageError):
    """A file that an earlier stage writes is missing."""


class FailureError(SugarbushError):
    """The run could not continue."""


class GeneratorError(FailureError):
    """A generator failed, or returned fewer texts than the method needs."""


class StorageError(FailureError):
    """A file could not be read or written."""


class PrivacyError(FailureError):
    """Continuing would break a privacy guarantee."""


class BudgetExceededError(PrivacyError):
    """A charge would exceed the dataset's cap."""


class LedgerError(PrivacyError):
    """The ledger cannot be read, written or trusted, so no noise may be drawn."""


class PoorFitError(SugarbushError):
    """The first look shows that the generator's texts are unlike the records."""

    exit_code = 3


class PoorReleaseError(SugarbushError):
    """A release is finished, but its texts are poor."""

    exit_code = 3


class RefusedReleaseError(SugarbushError):
    """A release is finished, and the rule `release.accept_if` refuses it."""

    exit_code = 4


class PrivateFactWarning(UserWarning):
    """An exact fact about private rows. It is no part of a release and not DP: do not share it."""


class InvariantError(AssertionError):
    """A bug in Sugarbush itself."""


def printable(message: str) -> str:
    """Replace control characters in `message` by spaces.

    With control characters, an endpoint or a file name could change other text on the terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else " " for c in message)

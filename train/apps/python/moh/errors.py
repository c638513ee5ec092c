"""The exceptions of moh, with the texts of the program's errors; `exit_code` is what the program would end with."""


class Error(Exception):
    """Any error of moh."""

    exit_code = 1


class ConfigError(Error, ValueError):
    """The configuration, a setting or an argument is wrong."""

    exit_code = 2


class InputError(Error):
    """A data file or a checkpoint cannot be read."""

    exit_code = 3


class NumericError(Error, ArithmeticError):
    """A loss, a gradient or a result is not finite."""

    exit_code = 4


class StorageError(Error):
    """A file could not be written; what was there before is intact."""

    exit_code = 5


class CommError(Error):
    """Another process of a run is lost."""

    exit_code = 6


def of_exit_code(code):
    """The class of the program's errors with this exit code."""
    kinds = (ConfigError, InputError, NumericError, StorageError, CommError)
    return next((kind for kind in kinds if kind.exit_code == code), Error)

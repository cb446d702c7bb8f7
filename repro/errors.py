"""Errors that a user can act on: one clear paragraph, no traceback on the command line."""


class ReproError(Exception):
    """Something the user can put right; the message says how."""


class BadParameter(ReproError, ValueError):
    """A parameter whose name, type or value is not accepted; names all three."""


class MissingAsset(ReproError):
    """A model or data set that is not here; names its size, licence and the fetching command."""

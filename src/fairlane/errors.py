"""What can go wrong, as types a caller can act on.

Driver errors (`pymongo.errors`) pass through untouched where Fairlane has nothing to add.
"""

__all__ = (
    "ConfigurationError",
    "Duplicate",
    "FairlaneError",
    "JobLost",
    "LeaseLost",
    "NotFound",
    "PayloadError",
    "ServerUnreachable",
    "describe",
)


def describe(error: BaseException, limit: int = 1_000) -> str:
    """Return type and message of any error as text that can be stored: valid and not too long."""
    name = type(error).__qualname__
    try:
        message = str(error)
    except Exception:  # an error whose own __str__ is broken
        message = "(no message: its __str__ raised)"
    text = f"{name}: {message}" if message else name
    return text[:limit].encode("utf-8", "backslashreplace").decode()


class FairlaneError(Exception):
    """The root of every error that Fairlane raises itself."""


class ConfigurationError(FairlaneError, ValueError):
    """An argument or a setting is not allowed; the message names it and what is allowed."""


class ServerUnreachable(FairlaneError, ConnectionError):
    """No server answered at the given address within `connect_timeout` seconds."""


class LeaseLost(FairlaneError):
    """The lease is no longer held: it was settled, or it expired and somebody else took the group.

    Nothing was changed. Stop working on the message; whoever holds the group now will settle it.
    """

    def __init__(self, group_id: str, seq: int, epoch: int) -> None:
        self.group_id = group_id
        self.seq = seq
        self.epoch = epoch
        super().__init__(
            f"the lease on group {group_id!r} (seq {seq}, epoch {epoch}) is no longer held; "
            "nothing was changed"
        )

    def __reduce__(self) -> tuple[type["LeaseLost"], tuple[str, int, int]]:
        return type(self), (self.group_id, self.seq, self.epoch)


class JobLost(LeaseLost):
    """The lease on a job is no longer held. Nothing was changed; stop working on it."""

    def __init__(self, job_id: str, type: str, epoch: int) -> None:
        self.job_id = job_id
        self.type = type
        FairlaneError.__init__(
            self,
            f"the lease on job {job_id} of type {type!r} is no longer held; nothing was changed",
        )
        self.epoch = epoch

    def __reduce__(self) -> tuple[type["JobLost"], tuple[str, str, int]]:  # type: ignore[override]
        return type(self), (self.job_id, self.type, self.epoch)


class PayloadError(FairlaneError, ValueError):
    """A payload cannot be stored as BSON; `path` says where inside it. Nothing was written."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"cannot store {path}: {problem}")

    def __reduce__(self) -> tuple[type["PayloadError"], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class Duplicate(FairlaneError):
    """A unique key is taken by something else; nothing was written."""


class NotFound(FairlaneError, LookupError):
    """What was asked for does not exist."""

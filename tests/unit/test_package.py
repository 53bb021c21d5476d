"""The public surface is what `__all__` says, in every module. (ruff keeps it sorted.)"""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import fairlane


def _is_program(name: str) -> bool:
    return name.endswith(("__main__", "_keeper", "demo._worker")) or "._secantus" in name


MODULES = [
    "fairlane",
    *(
        info.name
        for info in pkgutil.walk_packages(fairlane.__path__, "fairlane.")
        if not _is_program(info.name)
    ),
]
PUBLIC_MODULES = [name for name in MODULES if "._" not in name]


def _public_definitions(module: ModuleType) -> set[str]:
    """Return the public classes and functions whose home is this module, but pytest's hooks."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith(("_", "pytest_"))
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }


@pytest.mark.parametrize("name", MODULES)
def test_all_is_a_tuple_of_names_that_exist(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    assert isinstance(exported, tuple)
    assert len(set(exported)) == len(exported)
    assert [each for each in exported if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_all_names_every_public_definition(name: str) -> None:
    module = importlib.import_module(name)
    missing = _public_definitions(module) - set(getattr(module, "__all__", ()))
    assert sorted(missing) == []


def test_package_exports_exactly_the_surface_of_this_release() -> None:
    assert set(fairlane.__all__) == {
        "AsyncJobQueue",
        "AsyncMongoTransport",
        "Backoff",
        "CallNext",
        "ConfigurationError",
        "DeadLetter",
        "Discard",
        "Duplicate",
        "Enqueued",
        "EnqueuedMany",
        "Execution",
        "Fail",
        "FairlaneError",
        "Job",
        "JobContext",
        "JobLost",
        "JobQueue",
        "JobStats",
        "Jobs",
        "Lease",
        "LeaseLost",
        "Message",
        "Middleware",
        "MongoTransport",
        "NewJob",
        "NotFound",
        "Outcome",
        "PayloadError",
        "Reclaimed",
        "Reject",
        "RepairReport",
        "Retry",
        "RetryPolicy",
        "Snooze",
        "ServerUnreachable",
        "TransportStats",
        "WorkerPool",
        "current_job",
        "current_lease",
    }

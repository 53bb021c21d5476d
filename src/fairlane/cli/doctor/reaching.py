"""The way to the server: what is wrong tells who has to act, whoever wrote the URL or runs it."""

import time
from collections.abc import Iterator

from pymongo.errors import OperationFailure, PyMongoError

from fairlane.cli.doctor.finding import Finding
from fairlane.cli.outcome import brief
from fairlane.cli.target import Deployment, Target, address
from fairlane.driver import AUTHENTICATION_FAILED, UNAUTHORIZED
from fairlane.errors import ConfigurationError, FairlaneError

__all__ = ("STEPS", "step_of", "unreached", "way")

STEPS = ("configuration", "connection", "authentication")
ADVICE = {
    "configuration": "correct --url (or FAIRLANE_URL), --db or --prefix",
    "connection": "is the address right, the server running, a primary elected, a firewall or TLS "
    "between you and it?",
    "authentication": "correct user, password and authSource in the URL; the user needs the role "
    "readWrite on the database",
}
AUTHENTICATION = frozenset({AUTHENTICATION_FAILED, UNAUTHORIZED})


def step_of(error: Exception) -> str:
    """Return at which step it went wrong."""
    causes = (error, error.__context__)  # `connect` says it without the driver's own error
    if any(isinstance(each, OperationFailure) and each.code in AUTHENTICATION for each in causes):
        return "authentication"
    return "configuration" if isinstance(error, ConfigurationError) else "connection"


def unreached(target: Target, error: FairlaneError | PyMongoError) -> Iterator[Finding]:
    """Return the steps that were taken, the last of which failed."""
    failed = step_of(error)
    for step in STEPS[: STEPS.index(failed)]:
        said = str(target) if step == "configuration" else "a server answers"
        yield Finding(check=step, status="ok", detail=said)
    said = brief(error) if isinstance(error, PyMongoError) else str(error)
    yield Finding(check=failed, status="error", detail=said, advice=ADVICE[failed])


async def way(deployment: Deployment) -> list[Finding]:
    """Return the steps, all of which succeeded."""
    admin = deployment.driver.client.get_database("admin")
    began = time.perf_counter()
    status = await admin.command("connectionStatus")
    milliseconds = round((time.perf_counter() - began) * 1_000, 1)
    where = address(deployment.driver)
    users = [f"{user['user']}@{user['db']}" for user in status["authInfo"]["authenticatedUsers"]]
    return [
        Finding(check="configuration", status="ok", detail=str(deployment.target)),
        Finding(
            check="connection",
            status="ok",
            detail=f"{where} answers in {milliseconds:g} ms",
            data={"address": where, "milliseconds": milliseconds},
        ),
        Finding(
            check="authentication",
            status="ok",
            detail=f"as {', '.join(users)}" if users else "the server asks for none",
            data={"users": users},
        ),
    ]

"""Open and close a client; say what went wrong without showing who logs in with what."""

import asyncio
import re
from typing import Any
from urllib.parse import unquote, urlsplit

import pymongo
from pymongo import errors as driver_errors

from fairlane.driver._bson import Document
from fairlane.driver._codes import AUTHENTICATION_FAILED
from fairlane.driver._driver import Driver
from fairlane.driver._kinds import kind_of
from fairlane.errors import ConfigurationError, ServerUnreachable

__all__ = ("close", "connect")


async def connect(
    url: str, *, driver: str, connect_timeout: float, options: Document, owner: str = "Fairlane"
) -> Any:
    """Open a client, after seeing that a server answers within `connect_timeout` seconds.

    A client of its own asks for that: the limit is not meant for later failovers. `owner` is what
    has kept its own options to itself; errors about the others name it.

    Raises `ConfigurationError` (bad URL, options, driver or credentials) or `ServerUnreachable`.
    """
    limit = {"serverSelectionTimeoutMS": max(1, round(connect_timeout * 1000))}
    client = _open(url, driver, {**options, **limit}, owner)
    try:
        server = Driver(client)  # refuses what we cannot use
        await server.first(client.get_database("admin").command("ping"))
    except driver_errors.OperationFailure as error:
        if error.code != AUTHENTICATION_FAILED:
            raise
        raise ConfigurationError(
            f"the server at {_address(url)} refused the credentials of {urlsplit(url).username!r}"
        ) from None
    except driver_errors.ConfigurationError as error:  # of a name that has to be looked up
        raise _unusable(url, error, owner) from None
    except driver_errors.ConnectionFailure as error:
        problem = re.sub(r" ?\(configured timeouts.*|, Timeout: .*", "", _masked(str(error), url))
        raise ServerUnreachable(
            f"no server at {_address(url)} within {connect_timeout:g} s: {problem}"
        ) from None
    finally:
        await close(client)
    return _open(url, driver, options, owner)


async def close(client: Any) -> None:
    if kind_of(client) == "motor":  # it says good-bye to the server, in the calling thread
        await asyncio.to_thread(client.close)
        return
    closing = client.close()
    if closing is not None:
        await closing


def _open(url: str, driver: str, options: Document, owner: str) -> Any:
    if not isinstance(url, str):
        raise ConfigurationError(
            f"url must be a str like 'mongodb://localhost:27017', not {type(url).__name__}"
        )
    try:
        return _client_class(driver)(url, **options)
    except (driver_errors.PyMongoError, ValueError, TypeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise _unusable(url, error, owner) from None


def _unusable(url: str, error: Exception, owner: str) -> ConfigurationError:
    unknown = re.match(r"Unknown option:? '?(\w+)", str(error))
    if unknown:
        return ConfigurationError(
            f"neither {owner} nor the MongoDB client has an option {unknown[1]!r}"
        )
    return ConfigurationError(f"cannot use the url of {_address(url)}: {_masked(str(error), url)}")


def _client_class(driver: str) -> Any:
    if driver == "motor":
        from motor.motor_asyncio import AsyncIOMotorClient

        return AsyncIOMotorClient
    if driver == "pymongo":
        return pymongo.AsyncMongoClient
    raise ConfigurationError(f"driver must be 'motor' or 'pymongo', not {driver!r}")


def _address(url: str) -> str:
    """Return scheme and hosts of a URL, which may be a wrong one: never a part of a password."""
    head, separator, rest = url.rpartition("://")
    authority, _, query = rest.replace("?", "/").partition("/")
    if "@" in query:  # a password with a slash, or an option with an @: it cannot be told
        authority = "..."
    return f"{head if separator else 'mongodb'}://{authority.rpartition('@')[2]}"


def _masked(message: str, url: str) -> str:
    """Return a driver's message, without any part of what stands before the hosts."""
    secret = url.rpartition("@")[0].rpartition("://")[2].partition(":")[2]
    for part in {secret, unquote(secret), *re.split("[/@:]", secret)} - {""}:
        message = message.replace(part, "***")
    return message

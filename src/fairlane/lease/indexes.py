"""Create an index, or say which existing one stands in its way."""

from pymongo.errors import OperationFailure
from pymongo.operations import IndexModel

from fairlane import schema
from fairlane.driver import UNAUTHORIZED, Collection, Document
from fairlane.errors import ConfigurationError

__all__ = ("ensure_index",)

CONFLICTS = frozenset({85, 86})  # IndexOptionsConflict, IndexKeySpecsConflict


async def ensure_index(collection: Collection, model: IndexModel) -> None:
    """Create the index if it is not there; many processes may do so at once.

    Raises:
        ConfigurationError: an index of that name or those keys is defined otherwise, or the user
            may not create indexes.
    """
    try:
        await collection.create_index(model)
    except OperationFailure as error:
        if error.code == UNAUTHORIZED:
            raise ConfigurationError(
                f"this user may not create indexes on {collection.name!r}; "
                "create them as an administrator and pass ensure_indexes=False"
            ) from error
        if error.code not in CONFLICTS:
            raise
        raise await _conflict(collection, model.document) from error


async def _conflict(collection: Collection, wanted: Document) -> ConfigurationError:
    keys = list(wanted["key"].items())
    standing = [
        schema.definition(index)
        for index in await collection.indexes()
        if index["name"] == wanted["name"] or schema.same_keys(index, keys)
    ]
    return ConfigurationError(
        f"an index on {collection.name!r} stands in the way: Fairlane needs "
        f"{schema.definition(wanted)!r}, there is {standing!r}; drop or rename that one"
    )

"""The driver adapter: the one place that knows Motor and PyMongo's `AsyncMongoClient` differ.

Everything else sees a `Driver` and its `Collection`s: a handful of typed verbs, the same on both
(and on mongomock-motor, for users' unit tests).
"""

from fairlane.driver._bson import BSON, RAW_BSON, Document
from fairlane.driver._codes import AUTHENTICATION_FAILED, UNAUTHORIZED
from fairlane.driver._collection import Change, Collection, Sort
from fairlane.driver._connecting import close, connect
from fairlane.driver._copying import copying
from fairlane.driver._driver import Driver
from fairlane.driver._explaining import Cost
from fairlane.driver._watching import Changes, ChangeStream, OpenStream
from fairlane.driver._writes import Delete, Insert, Settled, Unit, Upsert, Write

__all__ = (
    "AUTHENTICATION_FAILED",
    "BSON",
    "RAW_BSON",
    "UNAUTHORIZED",
    "Change",
    "ChangeStream",
    "Changes",
    "Collection",
    "Cost",
    "Delete",
    "Document",
    "Driver",
    "Insert",
    "OpenStream",
    "Settled",
    "Sort",
    "Unit",
    "Upsert",
    "Write",
    "close",
    "connect",
    "copying",
)

"""The blocking facades: the asynchronous classes for programs without an event loop."""

from fairlane.sync._jobs import JobQueue
from fairlane.sync._transport import MongoTransport

__all__ = ("JobQueue", "MongoTransport")

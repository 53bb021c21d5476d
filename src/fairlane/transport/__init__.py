"""The grouped transport: FIFO per message group, one lease per group at a time."""

from fairlane.transport._transport import AsyncMongoTransport

__all__ = ("AsyncMongoTransport",)

"""What a client sends, and what fails of it."""

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

__all__ = ("Listener",)


class Listener(CommandListener):
    """Keeps the names of commands, but for those of connecting and monitoring.

    Attributes:
        sent: each command, a repeated one twice.
        refused: those that the server answered with an error, or did not acknowledge.
    """

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.refused: list[str] = []

    def forget(self) -> None:
        self.sent.clear()
        self.refused.clear()

    def started(self, event: CommandStartedEvent) -> None:
        if event.database_name != "admin" or event.command_name == "bulkWrite":
            self.sent.append(event.command_name)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if "writeConcernError" in event.reply:
            self.refused.append(event.command_name)

    def failed(self, event: CommandFailedEvent) -> None:
        self.refused.append(event.command_name)

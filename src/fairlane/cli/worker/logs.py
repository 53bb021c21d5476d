"""The log of a worker process, on standard error: lines for people, or JSON for programs."""

import json
import logging
from datetime import UTC, datetime

from fairlane.cli.worker.plan import LogFormat, Plan

__all__ = ("JsonLines", "set_up")

TEXT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"
OF_EVERY_RECORD = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}  # the last one: 3.12
)


class JsonLines(logging.Formatter):
    """One JSON object a line: what every record has, and each field of its `extra`.

    `at` (ISO 8601, UTC), `level`, `logger`, `message`, `pid`, and `exception`, a traceback, where
    there is one. Fairlane's own lines about a message have `group_id`, `seq` and `attempt`, those
    about a job `job_id`, `job_type` and `attempt`. An extra of one of the first names is left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = {**_extra(record), **self._own(record)}
        try:
            return json.dumps(fields, default=repr, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # keys that are no text, NaN, a circle
            return json.dumps({name: _sure(value) for name, value in fields.items()})

    def _own(self, record: logging.LogRecord) -> dict[str, object]:
        own: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if record.exc_info:
            own["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            own["stack"] = self.formatStack(record.stack_info)
        return own


def set_up(plan: Plan) -> None:
    """Let the root logger write. What the application sets up itself, later, stays as it is."""
    handler = logging.StreamHandler()
    is_json = plan.log_format == LogFormat.JSON
    handler.setFormatter(JsonLines() if is_json else logging.Formatter(TEXT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(plan.log_level.upper())
    logging.captureWarnings(True)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in OF_EVERY_RECORD}


def _sure(value: object) -> object:
    return value if value is None or isinstance(value, str | int) else repr(value)

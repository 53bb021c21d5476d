"""What a worker process is told: by the command line, or by its supervisor as a line of JSON."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

__all__ = ("HealthPlan", "LogFormat", "LogLevel", "LoopName", "Plan")


class LoopName(StrEnum):
    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One worker process.

    Attributes:
        target: `module:attribute` of a pool, or of what makes one.
        app_dir: where modules are looked for first.
        kill_after: seconds after the first signal after which the process leaves at once; None
            waits for the pool's own `drain_timeout`, and for whatever the application closes.
    """

    target: str
    app_dir: str = "."
    loop: str = LoopName.AUTO
    log_format: str = LogFormat.TEXT
    log_level: str = LogLevel.INFO
    kill_after: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> "Plan":
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPlan:
    """Where health is told; nowhere by default. Port 0 is any free one."""

    host: str = "127.0.0.1"
    port: int | None = None
    file: Path | None = None

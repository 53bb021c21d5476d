"""What is written down in a run: what happened, what was touched by that, and what was wrong."""

from collections.abc import Iterable

from property.footprint import Footprint

__all__ = ("Record",)


class Record:
    def __init__(self) -> None:
        self.footprint = Footprint()
        """What notes were made of since it was last replaced."""
        self.lines: list[str] = []
        self.violations: list[str] = []

    def expect_none(self) -> None:
        if self.violations:
            log = "\n".join(self.lines)
            raise AssertionError("\n".join(self.violations) + f"\nlog:\n{log}")

    def blame(self, violation: str) -> None:
        self.violations.append(violation)
        self.note(f"!! {violation}")

    def blame_all(self, violations: Iterable[str]) -> None:
        for violation in violations:
            self.blame(violation)

    def touch(self, *, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
        self.footprint.reads.update(("log", "*", topic) for topic in reads)
        self.footprint.writes.update(("log", "*", topic) for topic in writes)

    def note(self, line: str) -> None:
        self.lines.append(f"{len(self.lines) + 1:4} {line}")

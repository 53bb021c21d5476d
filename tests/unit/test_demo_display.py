"""What `fairlane demo` shows while it runs, on a terminal of 80 columns and elsewhere."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fairlane.cli.demo.display import ROOM_FOR_ECHO, Display

LONG = "it is said " * 10 + "at last"

Screen = Callable[[Callable[[Display], None]], list[str]]


@pytest.fixture
def screen() -> Callable[..., list[str]]:
    def show(play: Callable[[Display], None], *, is_terminal: bool = True) -> list[str]:
        out = StringIO()
        console = Console(file=out, width=80, force_terminal=is_terminal)
        with Display(console, 1_000_000) as display:
            play(display)
        return Text.from_ansi(out.getvalue().replace("\r", "\n")).plain.splitlines()

    return show


def test_progress_leaves_room_for_what_the_terminal_echoes(screen: Screen) -> None:
    rows = screen(lambda d: d.show(entered=999_999, ended=999_999, repeated=99_999))
    bars = [row for row in rows if row.startswith(("published", "handled"))]
    assert bars
    assert max(map(cell_len, bars)) <= 80 - ROOM_FOR_ECHO
    assert any("99999 redelivered" in row for row in bars)


def test_a_note_breaks_between_words_on_a_terminal(screen: Screen) -> None:
    said = [row for row in screen(lambda d: d.note(LONG)) if "said" in row or "last" in row]
    assert len(said) > 1
    assert " ".join(row.strip() for row in said) == LONG


def test_a_note_is_one_line_elsewhere(screen: Callable[..., list[str]]) -> None:
    assert screen(lambda d: d.note(LONG), is_terminal=False) == [LONG]


def test_stopping_is_said_once(screen: Callable[..., list[str]]) -> None:
    def stop_twice(display: Display) -> None:
        display.stopping()
        display.stopping()

    assert screen(stop_twice, is_terminal=False) == ["stopping"]


def test_there_are_no_bars_below_stopping(screen: Screen) -> None:
    def stop_and_go_on(display: Display) -> None:
        display.stopping()
        display.show(entered=1, ended=1, repeated=0)

    rows = screen(stop_and_go_on)
    assert not any("handled" in row for row in rows[rows.index("stopping") :])

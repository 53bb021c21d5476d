"""The `fairlane` command. Importing this needs only the core; running it, the extra `cli`."""

import sys

__all__ = ("main",)

EXTRA = frozenset({"rich", "typer"})


def main() -> None:
    """Run the `fairlane` command line and exit with its status."""
    try:
        from fairlane.cli.app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        sys.exit(
            f"The fairlane command needs {package}, which is not installed. "
            "Install it with: pip install 'fairlane[cli]'"
        )
    app(prog_name="fairlane")

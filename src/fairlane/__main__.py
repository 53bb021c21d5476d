"""`python -m fairlane` is the `fairlane` command."""

from fairlane.cli import main

if __name__ == "__main__":
    main()

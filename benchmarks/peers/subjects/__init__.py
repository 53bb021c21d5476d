"""One program for each library, run with the library's own environment; see `_child`."""

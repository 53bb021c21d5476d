"""The launcher of SecantusDB: `python -m fairlane.testing._secantus --port N --folder DIR`.

SecantusDB is GPL-2.0 code, so this package is only ever run as a process of its own, and nothing in
Fairlane imports it. It knows the inside of exactly one version and refuses every other.
"""

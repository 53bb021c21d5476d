"""The one version of SecantusDB that the launcher repairs; apart, as both sides read it."""

__all__ = ("SECANTUS_VERSION",)

SECANTUS_VERSION = "0.7.0b3"

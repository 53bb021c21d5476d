"""The errors of an outage or an election, as servers answer them."""

__all__ = ("CODES", "REPEATED")

REPEATED = {
    10107: "NotWritablePrimary",
    91: "ShutdownInProgress",
    11600: "InterruptedAtShutdown",
    189: "PrimarySteppedDown",
    6: "HostUnreachable",
    89: "NetworkTimeout",
}
"""What drivers repeat a command after, once."""

FINAL = {112: "WriteConflict", 50: "MaxTimeMSExpired"}
CODES = (*REPEATED, *FINAL)

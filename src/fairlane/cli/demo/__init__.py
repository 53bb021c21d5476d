"""`fairlane demo`: work off a stream of events under fire, then check every promise from a record.

`input` reads the stream, `publishing` and `_worker` do the work, `records` is what really happened,
`check` judges it, `report` prints it, and `run` conducts.
"""

__all__ = ()

"""The lease of a group: who may handle its messages, and until when (design section 3).

A group's lock document is in one of four states::

                publish (new group)                   claim
   (no lock) ----------------------> ready ---------------------> leased(token, until)
       ^                              ^  ^                          |   |   |
       |       drained: remove        |  +-- ack, more messages <---+   |   +-> expired: claimable
       +------------------------------+----- ack, nothing left <-------+|       again, the attempt
                                      +----- nack, release: now or later +      already counted

Every arrow out of `leased` is one conditional write whose filter carries the token. `commands`
holds those writes as pure functions, each with the race that its filter closes.
"""

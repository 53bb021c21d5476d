"""The sorted lease: who may work on a document, and until when. It knows no groups and no jobs.

A collection is leased from when its documents have these fields:

    partition     which of the claimers' ranges of the index the document is in
    available_at  epoch seconds: claimable from then on
    token         of the lease; null if nobody holds the document
    attempts      how often it was leased and not given back
    epoch         grows with every lease

A document is in one of three states. Time alone ends two of them, without a write that could fail:

    state   available_at  token    ends by
    ready   past          any      claimed -> leased
    leased  future        a token  freed(at=now), given_back -> ready; freed(at=later) -> parked;
                                   time -> ready: the attempt stays counted, and the late holder
                                   may settle until somebody else has claimed
    parked  future        null     time -> ready

One `available_at` says both "leased until" and "not before". So eligibility is one range of one
index, and a dead worker's document comes back by itself.

    verb (`commands`)  guard: what the filter says    closes the race with
    claimed            due: its partition, its time    another claimer of the same document
                       still_due: its id, its time     the same, since it was read
    extended           held: its id and its token      whoever took the document over
    freed, given_back  held                            the same, and a second settlement

Products add their own ways out, which all are guarded by `held` and clear the token. A token is
never used again and never changed by an extension.

`sweep`       which partition a claimer tries next; it rests only when it missed every one
`rounds`      one attempt after the other, until something is found or nothing is due
`strategy`    `find_one_and_update`, or a sorted `update_one` and a look at what it took
`batch`       any number of documents in as many commands as a few
`hints`       which index a claim names where several would do: measured, never waited for
`site`        what the operations of a product share: server time, settings, strategy, indexes
`settings`    how many partitions there are, the same for all programs, and how that is changed
`reconciler`  puts where claimers look what is elsewhere; never moves a live lease
"""

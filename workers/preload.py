"""What a fork server imports once, for all processes that are forked from it."""

import gc

# To look for garbage takes a quarter of the time of these imports. Frozen, what they made is left alone by later
# collections, which would have each process copy its memory.
gc.disable()

from workers import jobs  # noqa: E402, F401

gc.freeze()
gc.enable()

//! The storage seam: what a shard asks of a journal, whatever is behind it.

//! Memory compression of RFC-0219: page lists, page queues, the compression and decompression protocol, statistics.

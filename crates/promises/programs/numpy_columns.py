"""Columns of a table: integers, categories and counters with realistic repetition. Group-by in
chunks (as data frame libraries work), sorts of single columns, point look-ups, an update in
place, and a digest of every result.
Arguments: seed, thousands of rows."""
import hashlib
import sys

import numpy as np

CHUNK = 1 << 18
seed, rows = int(sys.argv[1]), int(sys.argv[2]) * 1000
rng = np.random.default_rng(seed)
table = {
    "order": np.empty(rows, np.int64),
    "customer": np.empty(rows, np.int64),
    "amount_cents": np.empty(rows, np.int64),
    "day": np.empty(rows, np.int32),
    "shop": np.empty(rows, np.int32),
    "category": np.empty(rows, np.uint8),
    "returned": np.empty(rows, np.uint8),
}
chunks = [slice(first, min(first + CHUNK, rows)) for first in range(0, rows, CHUNK)]
for chunk in chunks:
    count = chunk.stop - chunk.start
    table["order"][chunk] = np.arange(chunk.start, chunk.stop) + 10_000_000
    table["customer"][chunk] = rng.zipf(1.5, count).clip(max=200_000)
    table["amount_cents"][chunk] = rng.integers(1, 40, count) * 250
    table["day"][chunk] = np.arange(chunk.start, chunk.stop) // (rows // 730 + 1)
    table["shop"][chunk] = rng.integers(0, 300, count)
    table["category"][chunk] = rng.integers(0, 24, count)
    table["returned"][chunk] = rng.integers(0, 50, count) == 0

digest = hashlib.sha256()


def group_by(column, groups):
    sums = np.zeros(groups)
    for chunk in chunks:
        sums += np.bincount(table[column][chunk], weights=table["amount_cents"][chunk], minlength=groups)
    digest.update(sums.tobytes())


for _ in range(2):
    group_by("day", 731)
    group_by("shop", 300)
    group_by("category", 24)
    group_by("customer", 200_001)
    for chunk in chunks:
        table["amount_cents"][chunk] += table["category"][chunk]
for name in ("shop", "category"):
    digest.update(np.sort(table[name])[::1001].tobytes())
for row in rng.integers(0, rows, 5000):
    for column in table.values():
        digest.update(column[row].tobytes())
for column in table.values():
    digest.update(column)
print("OK", rows, "rows", digest.hexdigest())

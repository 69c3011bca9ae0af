"""Columns of a table: integers, categories and counters with realistic repetition; group-by,
sort and join by index, and a digest of every result.
Arguments: seed, thousands of rows."""
import hashlib
import sys

import numpy as np

seed, rows = int(sys.argv[1]), int(sys.argv[2]) * 1000
rng = np.random.default_rng(seed)
table = {
    "order": np.arange(rows, dtype=np.int64) + 10_000_000,
    "customer": rng.zipf(1.3, rows).clip(max=200_000).astype(np.int64),
    "amount_cents": (rng.integers(1, 400, rows) * 25).astype(np.int64),
    "day": np.sort(rng.integers(0, 730, rows)).astype(np.int32),
    "shop": rng.integers(0, 300, rows).astype(np.int32),
    "category": rng.choice(np.arange(24, dtype=np.uint8), rows),
    "returned": (rng.integers(0, 50, rows) == 0).astype(np.uint8),
}
digest = hashlib.sha256()


def note(array):
    digest.update(np.ascontiguousarray(array).tobytes())


for column in ("day", "shop", "category", "returned"):
    note(np.bincount(table[column], weights=table["amount_cents"]))
note(np.bincount(table["customer"], weights=table["amount_cents"]).cumsum())
order = np.lexsort((table["order"], table["amount_cents"], table["shop"]))
for name in table:
    note(table[name][order][::7])
for _ in range(3):
    table["amount_cents"] += table["category"]
    note(np.sort(table["amount_cents"])[::1001])
for name in table:
    note(table[name])
print("OK", rows, "rows", digest.hexdigest())

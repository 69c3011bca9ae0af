"""pandas and NumPy: columns of trips and of customers, joined, sorted, grouped, reshaped; every result is printed as a digest."""
import hashlib
import sys

import numpy as np
import pandas as pd

rows, rounds = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(11)


def digest(what, frame):
    if isinstance(frame, pd.DataFrame):
        parts = [pd.util.hash_pandas_object(frame, index=True).to_numpy()]
    else:
        parts = [np.ascontiguousarray(frame)]
    total = hashlib.sha256()
    for part in parts:
        total.update(part.tobytes())
    print(what, frame.shape, total.hexdigest(), flush=True)


cities = np.array("Berlin Madrid Lagos Osaka Toronto Austin Lyon Turin Lima Pune Perth Oslo Porto Leeds".split())
people = max(rows // 20, 1)
customers = pd.DataFrame({
    "customer": np.arange(people),
    "name": [f"{cities[i % 14]} {i * 2654435761 % 100003:x} {i}" for i in range(people)],
    "segment": pd.Categorical(rng.choice(np.array(["new", "loyal", "lost", "gold"]), people)),
    "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, people), unit="D"),
})
for number in range(rounds):
    trips = pd.DataFrame({
        "id": np.arange(rows, dtype=np.int64) + 10_000_000,
        "customer": rng.zipf(1.3, rows) % people,
        "start": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 86_400 * 365, rows)), unit="s"),
        "seconds": rng.gamma(3.0, 300.0, rows).astype(np.int32),
        "metres": (rng.lognormal(1.2, 0.7, rows) * 1000).astype(np.int64),
        "fare": (rng.gamma(4.0, 4.5, rows) * 100).astype(np.int64),
        "passengers": rng.choice(np.array([1, 2, 3, 4], dtype=np.int64), rows, p=[0.7, 0.2, 0.06, 0.04]),
        "paid": rng.random(rows) < 0.97,
        "city": pd.Categorical(rng.choice(cities, rows)),
        "method": rng.choice(np.array(["card", "cash", "voucher", "app"], dtype=object), rows),
    })
    trips["tip"] = np.where(rng.random(rows) < 0.4, 0, trips["fare"] // 10)
    joined = trips.merge(customers, on="customer", how="left")
    digest("joined", joined)
    by_day = joined.groupby([joined["start"].dt.date, "city"], observed=True)[["fare", "tip", "metres"]].agg(["sum", "mean", "max"])
    digest("by day", by_day)
    ordered = joined.sort_values(["fare", "id"], kind="stable")["id"].to_numpy()
    digest("ordered", ordered)
    wide = joined.pivot_table(index="segment", columns="city", values="fare", aggfunc="mean", observed=True)
    digest("wide", wide)
    matrix = trips[["seconds", "metres", "fare", "tip"]].to_numpy(dtype=np.float64)
    matrix = (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)
    digest("matrix", np.round(matrix, 6))
    digest("rolling", np.nan_to_num(trips["fare"].rolling(48).mean().to_numpy()))
    print("notes", joined["name"].str.len().sum(), joined["method"].value_counts().to_dict(), flush=True)

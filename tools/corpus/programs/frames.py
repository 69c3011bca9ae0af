"""pandas and NumPy: columns of every kind, and what comes of joining and grouping them."""
import sys
import numpy as np
import pandas as pd
from text import CITIES, TAGS, Text, wait

text = Text(3)
rng = np.random.default_rng(3)
rows = int(sys.argv[1])
cities = np.array(CITIES)
trips = pd.DataFrame({
    "id": np.arange(rows, dtype=np.int64) + 10_000_000,
    "customer": rng.zipf(1.3, rows) % 50_000,
    "start": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 86_400 * 365, rows)), unit="s"),
    "seconds": rng.gamma(3.0, 300.0, rows).astype(np.int32),
    "kilometres": np.round(rng.lognormal(1.2, 0.7, rows), 2),
    "fare": np.round(rng.gamma(4.0, 4.5, rows), 2),
    "temperature": 12 + 9 * np.sin(np.arange(rows) / rows * 6.28) + rng.normal(0, 2, rows),
    "latitude": 52.5 + rng.normal(0, 0.05, rows),
    "longitude": 13.4 + rng.normal(0, 0.09, rows),
    "passengers": rng.choice(np.array([1, 2, 3, 4], dtype=np.int64), rows, p=[0.7, 0.2, 0.06, 0.04]),
    "paid": rng.random(rows) < 0.97,
    "city": pd.Categorical(rng.choice(cities, rows)),
    "method": rng.choice(np.array(["card", "cash", "voucher", "app"], dtype=object), rows),
})
trips.loc[rng.random(rows) < 0.03, "temperature"] = np.nan
trips["tip"] = np.where(rng.random(rows) < 0.4, 0.0, np.round(trips["fare"] * rng.uniform(0.05, 0.2, rows), 2))
people = 50_000
names = [text.person() for _ in range(people)]
customers = pd.DataFrame({
    "customer": np.arange(people),
    "name": [" ".join(name) for name in names],
    "email": [text.email(*name) for name in names],
    "note": [text.sentence(6) if text.random.random() < 0.5 else None for _ in range(people)],
    "segment": pd.Categorical(rng.choice(np.array(TAGS), people)),
    "since": pd.to_datetime(rng.integers(1_400_000_000, 1_700_000_000, people), unit="s"),
})
joined = trips.iloc[: rows // 3].merge(customers, on="customer", how="left")
by_day = trips.groupby([trips["start"].dt.date, "city"], observed=True)[["fare", "tip", "kilometres"]].agg(["sum", "mean", "std"])
rolling = trips["temperature"].rolling(48).mean()
features = trips[["seconds", "kilometres", "fare", "tip"]].to_numpy(dtype=np.float32)
features = (features - features.mean(axis=0)) / features.std(axis=0)
wait()

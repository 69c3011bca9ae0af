"""A service that holds records and uses every tenth of them, those that came last, ten times a second."""
import json
import random
import time

r = random.Random(7)
words = [f"word{n}" for n in range(5000)]
records = []
for number in range(120_000):
    records.append({
        "id": number,
        "name": " ".join(r.choice(words) for _ in range(4)),
        "note": json.dumps({"tags": [r.choice(words) for _ in range(6)], "score": r.random()}),
        "values": [r.random() for _ in range(12)],
    })
hot = records[-len(records) // 10:]
print("filled", flush=True)
total = 0.0
while True:
    for record in hot:
        record["id"] += 1
        total += record["values"][3] + len(record["name"]) + len(record["note"])
    time.sleep(0.1)

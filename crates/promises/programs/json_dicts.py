"""Dictionaries and JSON, as a service holds them: builds seeded records, serialises a third,
looks up and rewrites at random, and prints a digest of everything.
Arguments: seed, number of records."""
import hashlib
import json
import random
import sys

seed, count = int(sys.argv[1]), int(sys.argv[2])
random.seed(seed)
CITIES = ["Lissabon", "Porto", "Coimbra", "Braga", "Faro", "Evora"]


def record(i):
    return {
        "id": i,
        "name": f"customer-{i:08d}",
        "city": CITIES[random.randrange(len(CITIES))],
        "balance": random.randrange(1_000_000) / 100,
        "tags": [f"tag{random.randrange(50)}" for _ in range(3)],
        "history": [{"day": d, "amount": random.randrange(500)} for d in range(3)],
    }


records = {f"key-{i}": record(i) for i in range(count)}
texts = {key: json.dumps(value, sort_keys=True) for i, (key, value) in enumerate(records.items()) if i % 3 == 0}
for _ in range(count // 4):
    key = f"key-{random.randrange(count)}"
    value = records[key]
    value["balance"] += 1
    if key in texts:
        old = json.loads(texts[key])
        if old["id"] != value["id"]:
            sys.exit(f"WRONG: {key}: {old['id']} is not {value['id']}")
        texts[key] = json.dumps(value, sort_keys=True)
digest = hashlib.sha256()
for key in sorted(records):
    digest.update(json.dumps(records[key], sort_keys=True).encode())
for key, text in texts.items():
    digest.update(text.encode())
print("OK", count, "records", digest.hexdigest())

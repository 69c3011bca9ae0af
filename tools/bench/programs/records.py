"""A job as they run in containers: reads records, indexes them, goes through them group by group, which is at random in memory."""
import collections
import hashlib
import json
import random
import sys

count = int(sys.argv[1])
r = random.Random(7)
cities = [f"city-{n:03}" for n in range(400)]
words = ["".join(r.choice("abcdefghijklmnoprstuvw") for _ in range(r.randrange(3, 11))) for _ in range(4000)]


def line(number):
    return json.dumps({
        "id": number,
        "customer": f"customer-{r.randrange(count // 4):07}",
        "city": r.choice(cities),
        "amount": round(r.expovariate(0.01), 2),
        "items": [{"sku": f"sku-{r.randrange(5000)}", "count": r.randrange(1, 9)} for _ in range(r.randrange(1, 5))],
        "note": " ".join(r.choices(words, k=r.randrange(4, 20))),
    })


records = [json.loads(line(number)) for number in range(count)]
by_city = collections.defaultdict(list)
by_customer = collections.defaultdict(list)
for record in records:
    by_city[record["city"]].append(record)
    by_customer[record["customer"]].append(record)
digest = hashlib.sha256()
for city in sorted(by_city):
    total = sum(record["amount"] for record in by_city[city])
    digest.update(f"{city} {len(by_city[city])} {total:.2f}\n".encode())
best = sorted(by_customer, key=lambda name: (-sum(record["amount"] for record in by_customer[name]), name))
for name in best[:1000]:
    digest.update(json.dumps(by_customer[name]).encode())
print(digest.hexdigest())

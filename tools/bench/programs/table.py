"""A job as they run in containers: builds a table in memory, then goes through it once, in order."""
import hashlib
import random
import sys

count = int(sys.argv[1])
r = random.Random(7)
rows = []
for number in range(count):
    rows.append({
        "id": number,
        "name": f"customer {number:07}",
        "mail": f"customer{number}@example.org",
        "balance": r.randrange(100000) / 100,
    })
digest = hashlib.sha256()
total = 0.0
for row in rows:
    total += row["balance"]
    if row["id"] % 1000 == 0:
        digest.update(f"{row['name']} {row['mail']} {total:.2f}\n".encode())
print(digest.hexdigest())

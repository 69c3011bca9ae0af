"""sqlite in memory: tables of text and numbers with indices, updated and partly deleted."""
import sqlite3
import sys
from text import Text, wait

text = Text(4)
r = text.random
rows = int(sys.argv[1])
database = sqlite3.connect(":memory:")
database.executescript("""
    create table customer (id integer primary key, name text, email text unique, city text, created text, balance real, note text);
    create table purchase (id integer primary key, customer integer references customer, sku text, quantity integer, price real, moment integer);
    create index customer_city on customer (city, name);
    create index purchase_customer on purchase (customer, moment);
    create index purchase_sku on purchase (sku);
""")
purchase = 0
for start in range(0, rows, 1000):
    customers, purchases = [], []
    for number in range(start, min(start + 1000, rows)):
        record = text.customer(number)
        customers.append((number, record["name"], f"{number}.{record['email']}", record["address"]["city"], record["created_at"], record["balance"], record["note"]))
        for order in record.get("orders", ()):
            purchase += 1
            purchases.append((purchase, r.randrange(rows), order["sku"], order["quantity"], order["price"], 1_700_000_000 + purchase * 7 + r.randrange(40)))
    database.executemany("insert into customer values (?, ?, ?, ?, ?, ?, ?)", customers)
    database.executemany("insert into purchase values (?, ?, ?, ?, ?, ?)", purchases)
for number in r.sample(range(rows), rows // 8):
    database.execute("update customer set note = ?, balance = balance * 1.02 where id = ?", (text.sentence(12), number))
database.execute("delete from purchase where id % 11 = 3")
database.commit()
wait()

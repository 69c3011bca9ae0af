"""Fills a redis server, whose socket is the argument, with JSON values, hashes and sorted sets."""
import json
import socket
import sys
from text import Text, wait

text = Text(1)
r = text.random
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
answers = server.makefile("rb")


def send(commands):
    out = []
    for command in commands:
        out.append(b"*%d\r\n" % len(command))
        for part in command:
            part = part if isinstance(part, bytes) else str(part).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(part), part))
    server.sendall(b"".join(out))
    for command in commands:
        if answers.readline()[:1] == b"-":
            sys.exit(f"redis refused {command[0]}")


number = int(sys.argv[2])
for start in range(0, number, 500):
    batch = []
    for at in range(start, min(start + 500, number)):
        record = text.customer(at)
        batch.append(("SET", f"customer:{at}", json.dumps(record)))
        if at % 10 == 0:
            batch.append(("HSET", f"session:{record['uuid']}", "user", at, "agent", "Mozilla/5.0", "seen", record["created_at"], "ip", "10.%d.%d.%d" % (r.randrange(256), r.randrange(256), r.randrange(256))))
        if at % 4 == 0:
            batch.append(("ZADD", "by_balance", record["balance"], record["email"]))
    send(batch)
# Some values are updated and some removed, as in a server that has been up for a while.
for _ in range(number // 5000):
    send([("SET", f"customer:{at}", json.dumps(text.customer(at))) for at in r.sample(range(number), 500)])
    send([("DEL", f"customer:{at}") for at in r.sample(range(number), 300)])
wait()

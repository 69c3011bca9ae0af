"""Reads every twentieth key of a redis server again and again, a thousand a second."""
import socket
import sys
import time

server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
replies = server.makefile("rb")


def ask(*words):
    text = [b"*%d\r\n" % len(words)]
    for word in words:
        text.append(b"$%d\r\n%s\r\n" % (len(word), word))
    server.sendall(b"".join(text))
    return answer()


def answer():
    line = replies.readline()
    kind, rest = line[:1], line[1:-2]
    if kind == b"$":
        length = int(rest)
        return None if length < 0 else replies.read(length + 2)[:-2]
    if kind == b"*":
        return [answer() for _ in range(int(rest))]
    return rest


keys, cursor = [], b"0"
while True:
    cursor, some = ask(b"SCAN", cursor, b"COUNT", b"1000")
    keys += some
    if cursor == b"0":
        break
keys.sort()
keys = keys[::20]
try:
    while True:
        for key in keys:
            ask(b"DUMP", key)
            time.sleep(0.001)
except OSError:
    pass  # the server has ended

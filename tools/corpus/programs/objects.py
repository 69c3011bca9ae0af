"""A CPython heap: dictionaries, lists, strings, instances with and without slots, trees, numbers."""
import collections
import datetime
import sys
from text import Text, wait

text = Text(2)
r = text.random


class Employee:
    def __init__(self, number):
        first, last = text.person()
        self.number = number
        self.name = f"{first} {last}"
        self.email = text.email(first, last)
        self.salary = r.randrange(30_000, 180_000)
        self.hired = datetime.date(2000 + r.randrange(25), 1 + r.randrange(12), 1 + r.randrange(28))
        self.manager = None
        self.reviews = []


class Review:
    __slots__ = ("author", "score", "comment", "when")

    def __init__(self, author):
        self.author = author
        self.score = r.gauss(3.5, 0.8)
        self.comment = text.sentence(r.randrange(3, 25))
        self.when = datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=r.randrange(40_000_000))


class Node:
    def __init__(self, key, value):
        self.key, self.value, self.left, self.right = key, value, None, None


def insert(root, key, value):
    while True:
        side = "left" if key < root.key else "right"
        child = getattr(root, side)
        if child is None:
            setattr(root, side, Node(key, value))
            return
        root = child


count = int(sys.argv[1])
employees = []
for number in range(count):
    employee = Employee(number)
    if employees:
        employee.manager = r.choice(employees[-2000:])
        employee.manager.reviews.append(Review(employee))
    employees.append(employee)
by_email = {employee.email: employee for employee in employees}
by_city = collections.defaultdict(list)
documents = []
for number in range(count // 3):
    document = text.customer(number)
    documents.append(document)
    by_city[document["address"]["city"]].append(document)
index = collections.defaultdict(set)
for at, document in enumerate(documents):
    for word in (document["note"] or "").split():
        index[word].add(at)
root = Node(0.5, None)
for _ in range(count):
    insert(root, r.random(), r.randrange(1 << 30))
matrix = [[r.gauss(0, 1) for _ in range(100)] for _ in range(count // 100)]
history = collections.deque((r.randrange(count), r.random(), "ok" if r.random() < 0.95 else "failed") for _ in range(count))
graph = {at: [r.randrange(count) for _ in range(r.randrange(8))] for at in range(count)}
# Holes, as a heap has that has been in use.
for number in r.sample(range(count), count // 6):
    employees[number].reviews = []
    by_email.pop(employees[number].email, None)
wait()

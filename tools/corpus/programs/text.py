"""Text and values that look like those of real programs: shared by the corpus programs.

Sentences come from a chain of word pairs learnt from Python's own manual, so that words repeat as
they do in prose and no sentence is simply copied. Everything follows from the seed.
"""
import random
import pydoc_data.topics

FIRST = """James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan Joseph Jessica
Thomas Karen Christopher Sarah Charles Lisa Daniel Nancy Matthew Sandra Anthony Ashley Mark Emily Amara Chidi Yuki Haruto Wei Li
Fatima Omar Ingrid Lars Sofia Mateo Priya Arjun Olga Dmitri Zeynep Emre Aoife Cian Noor Tariq Mei Jun Ana Pedro""".split()
LAST = """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson
Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker Young Allen King
Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter Roberts Okafor Tanaka Novak
Schneider Rossi Dubois Kowalski Haddad Petrov Yilmaz""".split()
CITIES = """Berlin Madrid Lagos Osaka Toronto Austin Lyon Turin Lima Pune Perth Oslo Gdansk Porto Leeds Cork Cairo Izmir Quito
Seattle Denver Hamburg Utrecht Ghent Malaga Nairobi Accra Busan Chennai Dallas""".split()
STREETS = "High Church Station Main Park Victoria Mill School Green North South Bridge Lake Hill River Oak".split()
DOMAINS = "example.com example.org mail.example.net corp.example.com uni.example.edu shop.example.io".split()
TAGS = """new sale vip trial overdue blocked export import beta partner wholesale retail priority fragile returned gift
subscription mobile desktop newsletter survey""".split()


class Text:
    """A source of words, sentences, names and records."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        words = " ".join(pydoc_data.topics.topics.values()).replace("*", "").split()
        self.words = words
        self.after = {}
        for one, two, three in zip(words, words[1:], words[2:]):
            self.after.setdefault((one, two), []).append(three)
        self.pairs = list(self.after)

    def sentence(self, words):
        """About that many words."""
        r = self.random
        pair = self.pairs[int(r.random() * len(self.pairs))]
        out = list(pair)
        for _ in range(words):
            choices = self.after.get(pair)
            if not choices:
                pair = self.pairs[int(r.random() * len(self.pairs))]
                continue
            word = choices[int(r.random() * len(choices))]
            out.append(word)
            pair = (pair[1], word)
        return " ".join(out)

    def person(self):
        r = self.random
        return r.choice(FIRST), r.choice(LAST)

    def email(self, first, last):
        r = self.random
        return f"{first.lower()}.{last.lower()}{r.randrange(1000)}@{r.choice(DOMAINS)}"

    def identifier(self):
        return "%08x-%04x-4%03x-%04x-%012x" % tuple(self.random.getrandbits(b) for b in (32, 16, 12, 16, 48))

    def moment(self):
        r = self.random
        return "202%d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (
            r.randrange(6), r.randrange(1, 13), r.randrange(1, 29), r.randrange(24), r.randrange(60), r.randrange(60), r.randrange(1000))

    def customer(self, number):
        """A nested record of about half a kilobyte as JSON."""
        r = self.random
        first, last = self.person()
        record = {
            "id": number,
            "uuid": self.identifier(),
            "name": f"{first} {last}",
            "email": self.email(first, last),
            "active": r.random() < 0.8,
            "created_at": self.moment(),
            "balance": round(r.lognormvariate(4, 1.5), 2),
            "address": {
                "street": f"{r.randrange(1, 400)} {r.choice(STREETS)} Street",
                "city": r.choice(CITIES),
                "zip": "%05d" % r.randrange(100000),
                "location": [round(r.uniform(-90, 90), 6), round(r.uniform(-180, 180), 6)],
            },
            "tags": r.sample(TAGS, r.randrange(5)),
            "note": self.sentence(r.randrange(4, 40)) if r.random() < 0.6 else None,
        }
        if r.random() < 0.5:
            record["orders"] = [
                {"sku": "SKU-%06d" % r.randrange(40000), "quantity": 1 + int(r.expovariate(0.7)), "price": round(r.lognormvariate(3, 1), 2)}
                for _ in range(r.randrange(1, 6))
            ]
        return record


def wait():
    """Tells the parent that memory is filled, and stays until it closes our standard input."""
    import sys

    print("filled", flush=True)
    sys.stdin.read()

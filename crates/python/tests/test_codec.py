"""The codecs as Python sees them: every page comes back, and damage is an exception at worst."""

import random
import re
import threading
import types
import unittest
from pathlib import Path

import coldpress

PAGE = coldpress.PAGE_BYTES
NAMES = ["press", "lz4", "lz4:1", "lz4-rust", "zstd", "zstd:5", "lzo", "wkdm"]


def pages():
    source = random.Random(7)
    yield bytes(PAGE)
    yield b"\x11\x22\x33\x44\x55\x66\x77\x88" * (PAGE // 8)
    yield source.randbytes(PAGE)
    words = [b"def ", b"return ", b"self.", b"page", b" = ", b"\n    "]
    for _ in range(20):
        yield b"".join(source.choice(words) for _ in range(PAGE))[:PAGE]
        yield bytes(source.choice((0, 0, 0, 7, 255)) for _ in range(PAGE))


class CodecTest(unittest.TestCase):
    def test_every_page_comes_back(self):
        for name in NAMES:
            codec = coldpress.Codec(name)
            kinds = set()
            for page in pages():
                stored = codec.compress(page)
                kinds.add(type(stored))
                if stored is None:
                    continue
                if isinstance(stored, bytes):
                    self.assertLessEqual(len(stored), codec.target_bytes)
                self.assertEqual(codec.decompress(stored), page, name)
            self.assertEqual(kinds, {bytes, int, type(None)}, name)

    def test_same_filled_pages_are_a_word(self):
        codec = coldpress.Codec()
        self.assertEqual(codec.compress(bytes(PAGE)), 0)
        self.assertEqual(codec.decompress(5), (5).to_bytes(8, "little") * 512)

    def test_damage_is_told_or_harmless(self):
        source = random.Random(3)
        for name in NAMES:
            codec = coldpress.Codec(name)
            stored = bytearray(next(filter(lambda stored: isinstance(stored, bytes), map(codec.compress, pages()))))
            told = 0
            for _ in range(500):
                damaged = bytearray(stored)
                for _ in range(source.randrange(1, 4)):
                    damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
                try:
                    self.assertEqual(len(codec.decompress(damaged[: source.randrange(len(damaged) + 1)])), PAGE)
                except coldpress.CorruptError as error:
                    self.assertIn("no page that", str(error))
                    told += 1
            self.assertGreater(told, 0, name)
        self.assertTrue(issubclass(coldpress.CorruptError, ValueError))

    def test_what_cannot_be_is_refused(self):
        codec = coldpress.Codec()
        for bytes_ in (0, PAGE - 1):
            with self.assertRaisesRegex(ValueError, f"not {bytes_}"):
                codec.compress(bytes(bytes_))
        with self.assertRaisesRegex(ValueError, "too many"):
            codec.compress(bytes(PAGE + 1))
        with self.assertRaisesRegex(ValueError, "choose lz4"):
            coldpress.Codec("gzip")
        with self.assertRaisesRegex(ValueError, "from 1 to"):
            coldpress.Codec("lz4:0")
        with self.assertRaisesRegex(ValueError, "at most 4096"):
            coldpress.Codec(target_bytes=PAGE + 1)
        with self.assertRaises(OverflowError):
            codec.decompress(-1)
        self.assertEqual(repr(coldpress.Codec("zstd:3")), 'coldpress.Codec("zstd:3", target_bytes=2867)')

    def test_checksums_tell_pages_apart(self):
        sums = [coldpress.checksum(page) for page in pages()]
        self.assertEqual(len(set(sums)), len(sums))
        self.assertTrue(all(0 <= value < 1 << 32 for value in sums))

    def test_threads_may_share_one(self):
        codec, wrong = coldpress.Codec("zstd"), []

        def turn():
            for page in pages():
                stored = codec.compress(page)
                if stored is not None and codec.decompress(stored) != page:
                    wrong.append(page)

        threads = [threading.Thread(target=turn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class DocumentsTest(unittest.TestCase):
    def test_examples_of_the_documents_run(self):
        root = Path(__file__).resolve().parents[3]
        found = 0
        for document in ("README.md", "docs/libraries.md", "crates/python/README.md"):
            text = (root / document).read_text(encoding="utf-8")
            for example in re.findall(r"```python\n(.*?)```", text, re.S):
                exec(compile(example, document, "exec"), {})  # pylint: disable=exec-used
                found += 1
        self.assertGreaterEqual(found, 3)

    def test_stubs_name_what_there_is(self):
        stubs = (Path(__file__).resolve().parents[1] / "coldpress.pyi").read_text(encoding="utf-8")
        for name, what in vars(coldpress).items():
            if not name.startswith("_") and not isinstance(what, types.ModuleType):
                self.assertRegex(stubs, rf"\b{name}\b")
        for kind in (coldpress.Cache, coldpress.Codec):
            for name in (name for name in vars(kind) if not name.startswith("_")):
                self.assertRegex(stubs, rf"def {name}\(", kind)


if __name__ == "__main__":
    unittest.main()

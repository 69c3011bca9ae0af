"""The cache as Python sees it: right bytes or None, from any buffer, from any thread."""

import array
import gc
import os
import random
import threading
import unittest

import coldpress

try:
    import numpy
except ImportError:
    numpy = None

PAGE = coldpress.PAGE_BYTES


def page(number):
    return random.Random(number).randbytes(PAGE)


class CacheTest(unittest.TestCase):
    def test_what_is_kept_comes_back(self):
        cache = coldpress.Cache(1 << 20, backing="anonymous")
        cache.insert(7, b"can be had again")
        self.assertEqual(cache.get(7, 16), b"can be had again")
        self.assertEqual(cache.get(7), b"can be had again" + bytes(PAGE - 16))
        self.assertIsNone(cache.get(8))
        self.assertTrue(cache.remove(7))
        self.assertFalse(cache.remove(7))
        self.assertIsNone(cache.get(7))
        self.assertGreaterEqual(cache.pages, 256)

    def test_any_contiguous_buffer_is_taken(self):
        cache = coldpress.Cache(1 << 20, backing="anonymous")
        content = page(1)
        buffers = [content, bytearray(content), memoryview(content), array.array("Q", content)]
        if numpy:
            buffers.append(numpy.frombuffer(content, dtype=numpy.float32).reshape(32, 32))
        for key, buffer in enumerate(buffers):
            cache.insert(key, buffer)
            self.assertEqual(cache.get(key), content)
        into = bytearray(PAGE)
        self.assertTrue(cache.get_into(0, into))
        self.assertEqual(into, content)
        words = array.array("I", bytes(64))
        self.assertTrue(cache.get_into(0, words))
        self.assertEqual(words.tobytes(), content[:64])
        before = bytes(into)
        self.assertFalse(cache.get_into(99, into))
        self.assertEqual(into, before)

    def test_what_cannot_be_is_refused(self):
        cache = coldpress.Cache(1 << 20)
        with self.assertRaisesRegex(ValueError, "4097 bytes are too many: at most 4096"):
            cache.insert(1, bytes(PAGE + 1))
        with self.assertRaisesRegex(BufferError, "contiguous"):
            cache.insert(1, memoryview(bytes(2 * PAGE))[::2])
        with self.assertRaisesRegex(BufferError, "read-only"):
            cache.get_into(1, bytes(8))
        with self.assertRaisesRegex(ValueError, "4096 bytes; 4097"):
            cache.get(1, PAGE + 1)
        with self.assertRaises(TypeError):
            cache.insert(1, "text")
        with self.assertRaises(TypeError):
            cache.insert(1, None)
        for key in (-1, 1 << 64):
            with self.assertRaises(OverflowError):
                cache.insert(key, b"x")
        cache.insert((1 << 64) - 1, b"x")
        with self.assertRaisesRegex(ValueError, "holds no page"):
            coldpress.Cache(0)
        with self.assertRaisesRegex(ValueError, 'choose "lazyfree"'):
            coldpress.Cache(1 << 20, backing="file")
        with self.assertRaises(ValueError):
            cache.insert_small(1, b"x")
        with self.assertRaises((ValueError, MemoryError)):
            coldpress.Cache(1 << 60)

    def test_small_entries_keep_their_length(self):
        cache = coldpress.Cache(1 << 20, small_entries=1000, backing="anonymous")
        for key in range(500):
            cache.insert_small(key, page(key)[: 1 + key])
        for key in range(500):
            self.assertEqual(cache.get_small(key), page(key)[: 1 + key])
        self.assertTrue(cache.remove_small(3))
        self.assertIsNone(cache.get_small(3))
        with self.assertRaises(ValueError):
            cache.insert_small(1, b"")
        with self.assertRaises(ValueError):
            cache.insert_small(1, bytes(2031))

    def test_more_than_it_holds(self):
        cache = coldpress.Cache(1 << 20, backing="dontneed", compressed_bytes=1 << 20)
        texts = {key: (b"%d, and so on. " % key) * 200 for key in range(2000)}
        for key, text in texts.items():
            cache.insert(key, text)
        got = {key: cache.get(key, len(text)) for key, text in texts.items()}
        self.assertTrue(all(value in (None, texts[key]) for key, value in got.items()))
        stats = cache.stats()
        self.assertGreater(stats["evicted"], 0)
        self.assertGreater(stats["compressed_entries"], 0)
        self.assertGreater(sum(value is not None for value in got.values()), 256)

    def test_threads_see_whole_pages(self):
        cache = coldpress.Cache(2 << 20, backing="dontneed")
        wrong, seen = [], [0]
        stop = threading.Event()

        def content(key, version):
            return (b"%08d:%08d|" % (key, version)) * 227

        def write(first):
            version = 0
            while not stop.is_set():
                version += 1
                for key in range(first, 64, 2):
                    cache.insert(key, content(key, version))

        def read():
            while not stop.is_set():
                key = random.randrange(64)
                got = cache.get(key)
                if got is not None:
                    seen[0] += 1
                    if got[: 227 * 18] != got[:18] * 227 or int(got[:8]) != key:
                        wrong.append(got)

        threads = [threading.Thread(target=write, args=(first,)) for first in (0, 1)]
        threads += [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        stop.wait(1.5)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(seen[0], 100)

    def test_nothing_leaks(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as statm:
                return int(statm.read().split()[1]) * 4096

        def turn():
            cache = coldpress.Cache(1 << 20, backing="anonymous")
            for key in range(200):
                cache.insert(key, bytes([key]) * PAGE)
                cache.get(key)
            coldpress.Codec("lz4").compress(bytes(PAGE))

        for _ in range(5):
            turn()
        gc.collect()
        before = resident()
        for _ in range(100):
            turn()
        gc.collect()
        self.assertLess(resident() - before, 32 << 20)

    def test_a_forked_child_has_its_own(self):
        cache = coldpress.Cache(1 << 20, backing="anonymous")
        cache.insert(1, b"before")
        child = os.fork()
        if child == 0:
            right = cache.get(1, 6) in (b"before", None)
            cache.insert(1, b"child!")
            os._exit(0 if right and cache.get(1, 6) == b"child!" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(cache.get(1, 6), b"before")


if __name__ == "__main__":
    unittest.main()

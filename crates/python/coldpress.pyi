"""Memory that the kernel may take back, and pages in fewer bytes."""

from typing import Literal, final

from typing_extensions import Buffer

PAGE_BYTES: int
"""Bytes of a page: 4,096."""
DEFAULT_TARGET_BYTES: int
"""Bytes into which a page has to fit to be worth storing, if nothing else is said: 2,867."""

class CorruptError(ValueError):
    """The bytes are no page that this codec has compressed."""

@final
class Cache:
    """Pages of data that can be computed again, in memory that the kernel may take back."""

    def __new__(
        cls,
        capacity_bytes: int,
        *,
        backing: Literal["lazyfree", "dontneed", "anonymous"] = "lazyfree",
        compressed_bytes: int = 0,
        small_entries: int = 0,
        hard_bytes: int = 0,
        soft_bytes: int = 0,
    ) -> Cache: ...
    def insert(self, key: int, data: Buffer, *, cost: int = 1) -> None:
        """Keeps data (at most PAGE_BYTES), and zeros up to a page."""
    def get(self, key: int, size: int = ...) -> bytes | None:
        """The first size bytes of the entry, or None if it is gone."""
    def get_into(self, key: int, buffer: Buffer) -> bool:
        """Copies the first bytes of the entry into the buffer. False if it is gone."""
    def remove(self, key: int) -> bool: ...
    def insert_small(self, key: int, data: Buffer) -> None:
        """Keeps 1 to 2,030 bytes as the small entry of key."""
    def get_small(self, key: int) -> bytes | None: ...
    def remove_small(self, key: int) -> bool: ...
    def tend(self) -> int:
        """Shrinks towards soft_bytes if memory is short. Returns the bytes given back."""
    @property
    def pages(self) -> int: ...
    def stats(self) -> dict[str, int]: ...

@final
class Codec:
    """Compresses single pages of PAGE_BYTES."""

    def __new__(cls, name: str = "press", *, target_bytes: int = ...) -> Codec: ...
    def compress(self, page: Buffer) -> bytes | int | None:
        """Fewer bytes; the 64-bit word of which the page consists; or None if it does not fit into target_bytes."""
    def decompress(self, stored: Buffer | int) -> bytes:
        """The page of what compress returned. Raises CorruptError."""
    @property
    def name(self) -> str: ...
    @property
    def target_bytes(self) -> int: ...

def checksum(page: Buffer) -> int:
    """The checksum (32 bits) by which the pager knows a page again."""

/* The discardable cache of coldpress, under its own names. lazyfree.h gives it the names of the
 * LazyFree cache, upstream/cache.h those of LazyFree as it is today; include one of the three.
 *
 * What is wrong in the calling program (two write locks in one thread, an unlock without a lock, a
 * lock of another cache, ending a cache while a page is locked for write) ends it by abort(), with
 * a message. What can happen in a right one is a null pointer, errno and coldpress_cache_error().
 *
 * Any thread may call anything. Readers never wait. A write lock belongs to its thread. */
#ifndef COLDPRESS_CACHE_H
#define COLDPRESS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

typedef struct coldpress_cache coldpress_cache;

struct coldpress_cache_options {
    size_t capacity_bytes;
    size_t page_bytes;       /* PAGE_SIZE */
    size_t rlock_bytes;      /* sizeof(struct coldpress_cache_rlock) */
    size_t lazyfree_chunks;  /* the kernel may take their pages */
    size_t anonymous_chunks; /* ordinary memory */
    size_t dont_need_chunks; /* ordinary memory, given back the moment an entry goes */
    size_t disk_chunks;      /* nameless files in $TMPDIR */
    int overcommit;          /* evict only what the kernel took, while there is such */
    int stub;                /* keep nothing */
    size_t compressed_bytes; /* what evicted entries may take, compressed; 0: they are lost */
    size_t small_entries;    /* about how many small entries it is to hold; 0: none. 26 bytes each */
    size_t hard_bytes;       /* what pages and compressed entries never exceed; 0: all there can be */
    size_t soft_bytes;       /* to what they shrink while memory is short and the cache is tended; 0: hard_bytes */
    const char *pressure;    /* where the kernel tells that; NULL: /proc/pressure/memory. Or memory.pressure of a group */
};

struct coldpress_cache_rlock {
    const volatile uint8_t *head; /* the page but for its last byte; zeros after a miss */
    const uint64_t *state;
    uint64_t seen;
    uint64_t key;
    uint8_t tail; /* the last byte of the page */
};

struct coldpress_cache_stats {
    uint64_t pages;
    uint64_t free_pages;
    uint64_t entries;
    uint64_t hits;
    uint64_t misses;
    uint64_t resets;    /* pages that were wanted and that the kernel had taken */
    uint64_t evicted;
    uint64_t reused;    /* pages the kernel had taken, used again unasked for */
    uint64_t displaced;
    uint64_t kept;      /* hot pages kept from the kernel */
    uint64_t compressed_entries; /* beside entries */
    uint64_t compressed_bytes;
    uint64_t resident_bytes;
    uint64_t lazyfree_bytes;
    uint64_t small_entries; /* beside entries, which counts their pages */
    uint64_t small_pages;
    uint64_t used_bytes;    /* what counts against the budgets */
    uint64_t hard_bytes;
    uint64_t soft_bytes;
    uint64_t shrunk_bytes;  /* by how much it shrank since memory was short */
};

coldpress_cache *coldpress_cache_new(const struct coldpress_cache_options *options);
void coldpress_cache_free(coldpress_cache *cache);
const char *coldpress_cache_error(void);
void coldpress_cache_read_lock(const coldpress_cache *cache, struct coldpress_cache_rlock *lock);
bool coldpress_cache_read_unlock(const coldpress_cache *cache, const struct coldpress_cache_rlock *lock, bool drop);
void *coldpress_cache_write_alloc(const coldpress_cache *cache, uint64_t key);
void *coldpress_cache_write_upgrade(const coldpress_cache *cache, struct coldpress_cache_rlock *lock);
void coldpress_cache_write_unlock(const coldpress_cache *cache, bool drop);
/* Says what the entry costs to make again, in any unit; 1 is what entries cost of which nothing is said. With
 * compressed_bytes, what is cheap for the memory it takes goes first. Also for a page that is locked for write.
 * False if there is no entry. */
bool coldpress_cache_set_cost(const coldpress_cache *cache, uint64_t key, uint32_t cost);
uint64_t coldpress_cache_shrink(const coldpress_cache *cache, uint64_t bytes);
/* Looks whether memory is short, and if so shrinks some way to soft_bytes. The bytes given back. For a loop of
 * the caller's own, about once a second; */
uint64_t coldpress_cache_tend(const coldpress_cache *cache);
/* or by a thread, which this starts, and with 0 ends, as does coldpress_cache_free. False with errno if there is
 * no thread to be had. */
bool coldpress_cache_tend_every(const coldpress_cache *cache, unsigned milliseconds);
void coldpress_cache_get_stats(const coldpress_cache *cache, struct coldpress_cache_stats *into);
bool coldpress_cache_take_as_the_kernel(const coldpress_cache *cache, uint64_t key); /* for tests */

/* ---- Entries of less than a page. Many share one, and go together with it. Their keys are their own:
 * a page and a small entry may have the same. ---- */

/* The longest small entry. */
#define COLDPRESS_CACHE_MOST_SMALL 2030

/* Keeps the bytes under the key, instead of what was there. False with errno EINVAL (no bytes, or
 * small_entries was 0), E2BIG (too many) or ENOMEM (every page is locked for write). */
bool coldpress_cache_insert_small(const coldpress_cache *cache, uint64_t key, const void *from, size_t bytes);
/* Copies the entry, room bytes of it at most, and returns its length; 0 if there is none. */
size_t coldpress_cache_get_small(const coldpress_cache *cache, uint64_t key, void *into, size_t room);
/* Forgets it. True if there was one. */
bool coldpress_cache_remove_small(const coldpress_cache *cache, uint64_t key);
bool coldpress_cache_take_small_as_the_kernel(const coldpress_cache *cache, uint64_t key); /* for tests */

/* Whether all that was read under the lock so far is the entry: its state is still the one that was
 * seen, and the marker is still there. An upgraded lock has a state of odd kind (bit 0 is clear)
 * and no marker, and cannot be lost. */
static inline bool coldpress_cache_rlock_check(struct coldpress_cache_rlock lock) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint8_t marker = lock.head[PAGE_SIZE - 1];
    return __atomic_load_n(lock.state, __ATOMIC_RELAXED) == lock.seen && (marker != 0 || !(lock.seen & 1));
}

/* Copies from the entry; false, and nothing to rely on in dest, if it is gone or the range is not
 * inside the page. */
static inline bool coldpress_cache_rlock_read(void *dest, struct coldpress_cache_rlock lock, size_t offset, size_t size) {
    uint8_t *to = (uint8_t *)dest;
    if (offset > PAGE_SIZE || size > PAGE_SIZE - offset || !coldpress_cache_rlock_check(lock))
        return false;
    /* While it is locked for write the page has its own last byte. */
    size_t marker = (lock.seen & 1) ? PAGE_SIZE - 1 : PAGE_SIZE;
    size_t i = 0;
    for (; i + 8 <= size && offset + i + 8 < PAGE_SIZE && (((uintptr_t)lock.head + offset + i) & 7) == 0; i += 8) {
        uint64_t word = *(const volatile uint64_t *)(lock.head + offset + i);
        __builtin_memcpy(to + i, &word, 8);
    }
    for (; i < size; i++)
        to[i] = offset + i == marker ? lock.tail : lock.head[offset + i];
    return coldpress_cache_rlock_check(lock);
}

/* A cache with all chunks of the kinds told; what lazyfree.h and upstream/cache.h make. */
static inline coldpress_cache *coldpress_cache_of(size_t capacity_bytes, size_t lazyfree_chunks,
                                                  size_t anonymous_chunks, size_t disk_chunks, int stub) {
    struct coldpress_cache_options options = {
        capacity_bytes, PAGE_SIZE, sizeof(struct coldpress_cache_rlock),
        lazyfree_chunks, anonymous_chunks, 0, disk_chunks, 0, stub, 0, 0, 0, 0, NULL,
    };
    return coldpress_cache_new(&options);
}

#ifdef __cplusplus
}
#endif
#endif

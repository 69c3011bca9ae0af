/* The LazyFree cache's C interface (seed 004) over the discardable cache of coldpress, name for name.
 *
 * Differences, all of them to the good of the caller:
 * - Several threads may hold write locks, one each, and read without a lock of their own around it.
 * - LAZYFREE_LOCK_CHECK also notices that the page was evicted, dropped or written meanwhile.
 * - lazyfree_write_alloc for a key that is there replaces its entry. It returns NULL with errno EBUSY while
 *   another thread writes that key, ENOMEM while every page is locked for write; so does
 *   lazyfree_write_upgrade. lazyfree_cache_new returns NULL with errno EINVAL or ENOMEM. */
#ifndef COLDPRESS_LAZYFREE_H
#define COLDPRESS_LAZYFREE_H

#include "coldpress_cache.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chunks of a cache by lazyfree_cache_new. */
#define COLDPRESS_LAZYFREE_CHUNKS 32

typedef coldpress_cache *lazyfree_cache_t;
typedef uint64_t lazyfree_key_t;
typedef struct coldpress_cache_rlock lazyfree_rlock_t;

/* Whether the lock is still valid. Ask after reading. */
#define LAZYFREE_LOCK_CHECK(lock) coldpress_cache_rlock_check(lock)

static inline lazyfree_cache_t lazyfree_cache_new(size_t capacity_bytes) {
    return coldpress_cache_of(capacity_bytes, COLDPRESS_LAZYFREE_CHUNKS, 0, 0, 0);
}

static inline void lazyfree_cache_free(lazyfree_cache_t cache) {
    coldpress_cache_free(cache);
}

/* Copies from the entry and checks: true if it was there all the while. */
static inline bool lazyfree_read(void *dest, lazyfree_rlock_t lock, size_t offset, size_t size) {
    return coldpress_cache_rlock_read(dest, lock, offset, size);
}

/* Takes an optimistic lock. It is not valid if the cache does not have the key. */
static inline lazyfree_rlock_t lazyfree_read_lock(lazyfree_cache_t cache, lazyfree_key_t key) {
    lazyfree_rlock_t lock;
    lock.key = key;
    coldpress_cache_read_lock(cache, &lock);
    return lock;
}

/* Ends it; with drop the entry is forgotten, if it still is what the lock saw. */
static inline void lazyfree_read_unlock(lazyfree_cache_t cache, lazyfree_rlock_t lock, bool drop) {
    coldpress_cache_read_unlock(cache, &lock, drop);
}

/* Locks a page for the key. Its content is unspecified. */
static inline void *lazyfree_write_alloc(lazyfree_cache_t cache, lazyfree_key_t key) {
    return coldpress_cache_write_alloc(cache, key);
}

/* Makes a write lock of a read lock. LAZYFREE_LOCK_CHECK(*lock) says then whether the page has
 * what the lock saw; if not, its content is unspecified. */
static inline void *lazyfree_write_upgrade(lazyfree_cache_t cache, lazyfree_rlock_t *lock) {
    return coldpress_cache_write_upgrade(cache, lock);
}

/* Ends the write lock of this thread; with drop the entry is forgotten. */
static inline void lazyfree_write_unlock(lazyfree_cache_t cache, bool drop) {
    coldpress_cache_write_unlock(cache, drop);
}

/* ---- Implementations to choose from ---- */

struct lazyfree_impl {
    lazyfree_cache_t (*new_cache)(size_t capacity_bytes);
    void (*free)(lazyfree_cache_t cache);
    lazyfree_rlock_t (*read_lock)(lazyfree_cache_t cache, lazyfree_key_t key);
    void (*read_unlock)(lazyfree_cache_t cache, lazyfree_rlock_t lock, bool drop);
    void *(*write_alloc)(lazyfree_cache_t cache, lazyfree_key_t key);
    void *(*write_upgrade)(lazyfree_cache_t cache, lazyfree_rlock_t *lock);
    void (*write_unlock)(lazyfree_cache_t cache, bool drop);
};

static inline lazyfree_cache_t coldpress_lazyfree_anon_new(size_t capacity_bytes) {
    return coldpress_cache_of(capacity_bytes, 0, COLDPRESS_LAZYFREE_CHUNKS, 0, 0);
}

static inline lazyfree_cache_t coldpress_lazyfree_disk_new(size_t capacity_bytes) {
    return coldpress_cache_of(capacity_bytes, 0, 0, COLDPRESS_LAZYFREE_CHUNKS, 0);
}

static inline lazyfree_cache_t coldpress_lazyfree_stub_new(size_t capacity_bytes) {
    return coldpress_cache_of(capacity_bytes, COLDPRESS_LAZYFREE_CHUNKS, 0, 0, 1);
}

static inline struct lazyfree_impl coldpress_lazyfree_impl_of(lazyfree_cache_t (*new_cache)(size_t)) {
    struct lazyfree_impl impl = {
        new_cache, lazyfree_cache_free, lazyfree_read_lock, lazyfree_read_unlock,
        lazyfree_write_alloc, lazyfree_write_upgrade, lazyfree_write_unlock,
    };
    return impl;
}

/* The kernel may take pages. */
static inline struct lazyfree_impl lazyfree_impl(void) {
    return coldpress_lazyfree_impl_of(lazyfree_cache_new);
}

/* Ordinary memory. */
static inline struct lazyfree_impl lazyfree_anon_impl(void) {
    return coldpress_lazyfree_impl_of(coldpress_lazyfree_anon_new);
}

/* Files. */
static inline struct lazyfree_impl lazyfree_disk_impl(void) {
    return coldpress_lazyfree_impl_of(coldpress_lazyfree_disk_new);
}

/* Keeps nothing. */
static inline struct lazyfree_impl lazyfree_stub_impl(void) {
    return coldpress_lazyfree_impl_of(coldpress_lazyfree_stub_new);
}

/* ---- Fallthrough cache: on a miss the entry is filled from where it comes from ---- */

typedef void (*ft_refill_t)(void *opaque, lazyfree_key_t key, uint8_t *value);

typedef struct {
    struct lazyfree_impl impl;
    lazyfree_cache_t cache;
    size_t entry_size;
    ft_refill_t refill_cb;
    void *refill_opaque;
} ft_cache_t;

/* capacity is in bytes of pages; each entry has a page. Aborts, with a message, if entry_size is
 * not between 1 and PAGE_SIZE, or if there can be no such cache. */
static inline void ft_cache_init(ft_cache_t *cache, struct lazyfree_impl impl, size_t capacity,
                                 size_t entry_size, ft_refill_t refill_cb, void *refill_opaque) {
    if (entry_size == 0 || entry_size > PAGE_SIZE) {
        fprintf(stderr, "ft_cache_init: an entry of %zu bytes does not fit into a page\n", entry_size);
        abort();
    }
    cache->impl = impl;
    cache->entry_size = entry_size;
    cache->refill_cb = refill_cb;
    cache->refill_opaque = refill_opaque;
    cache->cache = impl.new_cache(capacity);
    if (!cache->cache) {
        fprintf(stderr, "ft_cache_init: %s\n", coldpress_cache_error());
        abort();
    }
}

static inline void ft_cache_destroy(ft_cache_t *cache) {
    cache->impl.free(cache->cache);
    cache->cache = NULL;
}

/* Copies the entry of key to value, after filling it if need be. Always succeeds; where no page can
 * be had for it just now, the entry is not kept. */
static inline void ft_cache_get(ft_cache_t *cache, lazyfree_key_t key, uint8_t *value) {
    lazyfree_rlock_t lock = cache->impl.read_lock(cache->cache, key);
    bool found = lazyfree_read(value, lock, 0, cache->entry_size);
    if (found) {
        cache->impl.read_unlock(cache->cache, lock, false);
        return;
    }
    cache->refill_cb(cache->refill_opaque, key, value);
    void *page = cache->impl.write_upgrade(cache->cache, &lock);
    if (page) {
        memcpy(page, value, cache->entry_size);
        cache->impl.write_unlock(cache->cache, false);
    }
}

/* Forgets key. True if there was an entry. */
static inline bool ft_cache_drop(ft_cache_t *cache, lazyfree_key_t key) {
    lazyfree_rlock_t lock = cache->impl.read_lock(cache->cache, key);
    bool found = LAZYFREE_LOCK_CHECK(lock);
    cache->impl.read_unlock(cache->cache, lock, found);
    return found;
}

#endif

/* LazyFree's fallthrough cache in the form it has today. On a miss the entry is filled from where it comes from. */
#ifndef FALLTHROUGH_CACHE_H
#define FALLTHROUGH_CACHE_H

#include "cache.h"

typedef void (*ft_refill_t)(void *opaque, uint64_t key, uint8_t *value);

struct fallthrough_cache {
    struct lazyfree_impl impl;
    lazyfree_cache_t cache;
    ft_refill_t refill_cb;
    void *refill_opaque;
    uint64_t entry_size;
};

typedef struct fallthrough_cache ft_cache_t;

/* capacity is in entries; each has a page. Aborts, with a message, if an entry does not fit into a
 * page or there can be no such cache. */
static inline void ft_cache_init(ft_cache_t *cache, struct lazyfree_impl impl, ft_refill_t refill_cb,
                                 void *refill_opaque, size_t capacity, size_t entry_size) {
    if (entry_size == 0 || entry_size > PAGE_SIZE || capacity > SIZE_MAX / PAGE_SIZE) {
        fprintf(stderr, "ft_cache_init: %zu entries of %zu bytes, each in a page, are not possible\n", capacity, entry_size);
        abort();
    }
    cache->impl = impl;
    cache->refill_cb = refill_cb;
    cache->refill_opaque = refill_opaque;
    cache->entry_size = entry_size;
    cache->cache = impl.new(capacity * PAGE_SIZE, impl.lazyfree_chunks, impl.anon_chunks, impl.disk_chunks);
    if (!cache->cache) {
        fprintf(stderr, "ft_cache_init: %s\n", coldpress_cache_error());
        abort();
    }
}

static inline void ft_cache_destroy(ft_cache_t *cache) {
    cache->impl.free(cache->cache);
    cache->cache = NULL;
}

/* Copies the entry of key to value, after filling it if need be. */
static inline void ft_cache_get(ft_cache_t *cache, lazyfree_key_t key, uint8_t *value) {
    lazyfree_rlock_t lock;
    lock.key = key;
    cache->impl.read_lock(cache->cache, &lock);
    bool found = lazyfree_read(&lock, value, 0, cache->entry_size);
    if (found) {
        cache->impl.read_unlock(cache->cache, &lock, false);
        return;
    }
    cache->refill_cb(cache->refill_opaque, key, value);
    void *page = cache->impl.write_lock(cache->cache, &lock);
    if (page) {
        memcpy(page, value, cache->entry_size);
        cache->impl.write_unlock(cache->cache, false);
    }
}

/* Forgets key. True if there was an entry. */
static inline bool ft_cache_drop(ft_cache_t *cache, lazyfree_key_t key) {
    lazyfree_rlock_t lock;
    lock.key = key;
    cache->impl.read_lock(cache->cache, &lock);
    return cache->impl.read_unlock(cache->cache, &lock, true);
}

/* Prints figures. */
static inline void ft_cache_debug(ft_cache_t *cache, bool verbose) {
    struct lazyfree_stats stats = cache->impl.stats(cache->cache, verbose);
    printf("total_pages=%zu free_pages=%zu\n", stats.total_pages, stats.free_pages);
}

#endif

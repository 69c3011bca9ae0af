/* LazyFree's cache that keeps nothing: every read misses, every write is forgotten. */
#ifndef COLDPRESS_STUB_CACHE_H
#define COLDPRESS_STUB_CACHE_H

#include "cache.h"

static inline lazyfree_cache_t stub_cache_new(size_t capacity, size_t lazyfree_chunks, size_t anon_chunks, size_t disk_chunks) {
    return coldpress_cache_of(capacity, lazyfree_chunks, anon_chunks, disk_chunks, 1);
}

static inline void stub_cache_free(lazyfree_cache_t cache) {
    coldpress_cache_free(cache);
}

static inline void stub_cache_read_lock(lazyfree_cache_t cache, lazyfree_rlock_t *lock) {
    coldpress_cache_read_lock(cache, lock);
}

static inline bool stub_cache_read_unlock(lazyfree_cache_t cache, lazyfree_rlock_t *lock, bool drop) {
    return coldpress_cache_read_unlock(cache, lock, drop);
}

static inline void *stub_cache_write_lock(lazyfree_cache_t cache, lazyfree_rlock_t *lock) {
    return lazyfree_write_lock(cache, lock);
}

static inline void stub_cache_write_unlock(lazyfree_cache_t cache, bool drop) {
    coldpress_cache_write_unlock(cache, drop);
}

#endif

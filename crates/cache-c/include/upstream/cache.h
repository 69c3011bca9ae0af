/* LazyFree's generic interface in the form it has today, over the discardable cache of coldpress. A
 * program written for LazyFree builds with this directory in place of LazyFree's own include/. */
#ifndef CACHE_H
#define CACHE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../coldpress_cache.h"

#define NUMBER_OF_CHUNKS 32

typedef coldpress_cache *lazyfree_cache_t;
typedef uint64_t lazyfree_key_t;

/* key is the caller's to set; head, tail and the rest are read_lock's. */
typedef struct coldpress_cache_rlock lazyfree_rlock_t;

struct lazyfree_stats {
    size_t total_pages;
    size_t free_pages;
};

/* Whether the lock is still valid. Ask after reading. */
#define LAZYFREE_LOCK_CHECK(lock) coldpress_cache_rlock_check(lock)

/* Copies from the entry and checks: true if it was there all the while. */
static inline bool lazyfree_read(lazyfree_rlock_t *lock, void *dest, size_t offset, size_t size) {
    return coldpress_cache_rlock_read(dest, *lock, offset, size);
}

struct lazyfree_impl {
    lazyfree_cache_t (*new)(size_t cache_size, size_t lazyfree_chunks, size_t anon_chunks, size_t disk_chunks);
    void (*free)(lazyfree_cache_t cache);
    void (*read_lock)(lazyfree_cache_t cache, lazyfree_rlock_t *lock);
    bool (*read_unlock)(lazyfree_cache_t cache, lazyfree_rlock_t *lock, bool drop);
    void *(*write_lock)(lazyfree_cache_t cache, lazyfree_rlock_t *lock);
    void (*write_unlock)(lazyfree_cache_t cache, bool drop);
    struct lazyfree_stats (*stats)(lazyfree_cache_t cache, bool verbose);
    size_t lazyfree_chunks;
    size_t anon_chunks;
    size_t disk_chunks;
};

#include "lazyfree_cache.h"
#include "stub_cache.h"

static inline struct lazyfree_impl coldpress_lazyfree_impl_of(size_t lazyfree_chunks, size_t anon_chunks, size_t disk_chunks) {
    struct lazyfree_impl impl = {
        .new = lazyfree_cache_new_ex,
        .free = lazyfree_cache_free,
        .read_lock = lazyfree_read_lock,
        .read_unlock = lazyfree_read_unlock,
        .write_lock = lazyfree_write_lock,
        .write_unlock = lazyfree_write_unlock,
        .stats = lazyfree_fetch_stats,
        .lazyfree_chunks = lazyfree_chunks,
        .anon_chunks = anon_chunks,
        .disk_chunks = disk_chunks,
    };
    return impl;
}

/* The kernel may take pages. */
static inline struct lazyfree_impl lazyfree_impl(void) {
    return coldpress_lazyfree_impl_of(NUMBER_OF_CHUNKS, 0, 0);
}

/* Ordinary memory. */
static inline struct lazyfree_impl lazyfree_anon_impl(void) {
    return coldpress_lazyfree_impl_of(0, NUMBER_OF_CHUNKS, 0);
}

/* Nameless files in $TMPDIR. */
static inline struct lazyfree_impl lazyfree_disk_impl(void) {
    return coldpress_lazyfree_impl_of(0, 0, NUMBER_OF_CHUNKS);
}

/* Keeps nothing. */
static inline struct lazyfree_impl lazyfree_stub_impl(void) {
    struct lazyfree_impl impl = coldpress_lazyfree_impl_of(NUMBER_OF_CHUNKS, 0, 0);
    impl.new = stub_cache_new;
    return impl;
}

#endif

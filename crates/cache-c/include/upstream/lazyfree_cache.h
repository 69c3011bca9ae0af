/* LazyFree's calls in the form they have today. See cache.h, which includes this. */
#ifndef LAZYFREE_CACHE_H
#define LAZYFREE_CACHE_H

#include "cache.h"

/* NULL, with errno and coldpress_cache_error(), if there can be no such cache. */
static inline lazyfree_cache_t lazyfree_cache_new_ex(size_t capacity, size_t lazyfree_chunks, size_t anon_chunks, size_t disk_chunks) {
    return coldpress_cache_of(capacity, lazyfree_chunks, anon_chunks, disk_chunks, 0);
}

static inline lazyfree_cache_t lazyfree_cache_new(size_t capacity) {
    return lazyfree_cache_new_ex(capacity, NUMBER_OF_CHUNKS, 0, 0);
}

static inline void lazyfree_cache_free(lazyfree_cache_t cache) {
    coldpress_cache_free(cache);
}

/* Takes an optimistic lock of lock->key. It is not valid if the cache does not have the key. */
static inline void lazyfree_read_lock(lazyfree_cache_t cache, lazyfree_rlock_t *lock) {
    coldpress_cache_read_lock(cache, lock);
}

/* True if all that was read is valid. With drop the entry is forgotten. */
static inline bool lazyfree_read_unlock(lazyfree_cache_t cache, lazyfree_rlock_t *lock, bool drop) {
    return coldpress_cache_read_unlock(cache, lock, drop);
}

/* Locks the page that lock saw for write. If that is gone, or was never there, or lock->head is NULL, it is
 * another page for lock->key, with unspecified content, and LAZYFREE_LOCK_CHECK fails. */
static inline void *lazyfree_write_lock(lazyfree_cache_t cache, lazyfree_rlock_t *lock) {
    if (lock->head == NULL)
        return coldpress_cache_write_alloc(cache, lock->key);
    return coldpress_cache_write_upgrade(cache, lock);
}

/* Ends the write lock of this thread; with drop the entry is forgotten. */
static inline void lazyfree_write_unlock(lazyfree_cache_t cache, bool drop) {
    coldpress_cache_write_unlock(cache, drop);
}

/* Figures; with verbose more of them on stdout. */
static inline struct lazyfree_stats lazyfree_fetch_stats(lazyfree_cache_t cache, bool verbose) {
    struct coldpress_cache_stats all;
    coldpress_cache_get_stats(cache, &all);
    if (verbose)
        printf("entries=%llu hits=%llu misses=%llu resets=%llu evicted=%llu resident=%llu lazyfree=%llu\n",
               (unsigned long long)all.entries, (unsigned long long)all.hits, (unsigned long long)all.misses,
               (unsigned long long)all.resets, (unsigned long long)all.evicted,
               (unsigned long long)all.resident_bytes, (unsigned long long)all.lazyfree_bytes);
    struct lazyfree_stats stats = {all.pages, all.free_pages};
    return stats;
}

/* A first look whether the library works: a word at the end of a page is written and read back. */
static inline void lazyfree_cache_tests(void) {
    uint64_t written = 0x1122334455667700, read = 0;
    lazyfree_cache_t cache = lazyfree_cache_new(4 * NUMBER_OF_CHUNKS * PAGE_SIZE);
    lazyfree_rlock_t lock;
    memset(&lock, 0, sizeof(lock));
    lock.key = 2;
    uint8_t *page = cache ? (uint8_t *)lazyfree_write_lock(cache, &lock) : NULL;
    if (page) {
        memcpy(page + PAGE_SIZE - sizeof(written), &written, sizeof(written));
        lazyfree_write_unlock(cache, false);
        lazyfree_read_lock(cache, &lock);
        if (lazyfree_read(&lock, &read, PAGE_SIZE - sizeof(read), sizeof(read)) && read == written) {
            lazyfree_cache_free(cache);
            return;
        }
    }
    fprintf(stderr, "lazyfree_cache_tests: %s\n", page ? "what was written was not read" : coldpress_cache_error());
    abort();
}

#endif

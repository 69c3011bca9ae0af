/* LazyFree's interface of today from C. */
#include "fallthrough_cache.h"
#include "lazyfree_cache.h"
#include "stub_cache.h"

#define CHECK(what) \
    do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(1); } } while (0)

static int refills;

static void refill(void *opaque, uint64_t key, uint8_t *value) {
    (void)opaque;
    key = ~key;
    memcpy(value, &key, sizeof(key));
    refills++;
}

static void through(struct lazyfree_impl impl, bool keeps) {
    ft_cache_t cache;
    ft_cache_init(&cache, impl, refill, NULL, 500, sizeof(uint64_t));
    refills = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t key = 0; key < 500; key++) {
            uint64_t value;
            ft_cache_get(&cache, key, (uint8_t *)&value);
            CHECK(value == ~key);
        }
    CHECK(refills == (keeps ? 500 : 1000));
    struct lazyfree_stats stats = cache.impl.stats(cache.cache, true);
    CHECK(!keeps || stats.total_pages - stats.free_pages == 500);
    CHECK(ft_cache_drop(&cache, 7) == keeps && !ft_cache_drop(&cache, 7));
    ft_cache_debug(&cache, false);
    ft_cache_destroy(&cache);
}

int main(void) {
    lazyfree_cache_tests();
    through(lazyfree_impl(), true);
    through(lazyfree_anon_impl(), true);
    through(lazyfree_disk_impl(), true);
    through(lazyfree_stub_impl(), false);

    lazyfree_cache_t cache = lazyfree_cache_new_ex(1 << 20, 8, 8, 16);
    lazyfree_rlock_t lock = {.key = 3};
    uint8_t *page = lazyfree_write_lock(cache, &lock), byte;
    CHECK(page);
    memset(page, 6, PAGE_SIZE);
    lazyfree_write_unlock(cache, false);
    lazyfree_read_lock(cache, &lock);
    CHECK(LAZYFREE_LOCK_CHECK(lock) && lazyfree_read(&lock, &byte, 4095, 1) && byte == 6);
    CHECK(lazyfree_write_lock(cache, &lock) == page && LAZYFREE_LOCK_CHECK(lock));
    lazyfree_write_unlock(cache, true);
    lazyfree_read_lock(cache, &lock);
    CHECK(!LAZYFREE_LOCK_CHECK(lock) && !lazyfree_read_unlock(cache, &lock, true));
    lazyfree_cache_free(cache);
    CHECK(lazyfree_cache_new_ex(1 << 20, 0, 0, 0) == NULL);
    printf("all passed\n");
    return 0;
}

/* The seed's interface from C: each call by its name, and what each promises. */
#include "lazyfree.h"
#include <pthread.h>
#include <errno.h>
#include <unistd.h>

#define CHECK(what) \
    do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(1); } } while (0)

static int refills;

static void refill(void *opaque, lazyfree_key_t key, uint8_t *value) {
    uint64_t word = key * 3 + *(uint64_t *)opaque;
    memcpy(value, &word, sizeof(word));
    refills++;
}

static void write_page(lazyfree_cache_t cache, lazyfree_key_t key, uint8_t fill) {
    void *page = lazyfree_write_alloc(cache, key);
    CHECK(page);
    memset(page, fill, PAGE_SIZE);
    lazyfree_write_unlock(cache, false);
}

static void pages_come_back_whole(void) {
    lazyfree_cache_t cache = lazyfree_cache_new(1 << 20);
    CHECK(cache);
    /* 0 in the last byte is where the marker has to be displaced; 0 is a key as any. */
    for (int fill = 0; fill < 4; fill++)
        write_page(cache, fill, fill);
    for (int fill = 0; fill < 4; fill++) {
        uint8_t page[PAGE_SIZE];
        lazyfree_rlock_t lock = lazyfree_read_lock(cache, fill);
        CHECK(LAZYFREE_LOCK_CHECK(lock));
        CHECK(lazyfree_read(page, lock, 0, PAGE_SIZE));
        for (int i = 0; i < PAGE_SIZE; i++)
            CHECK(page[i] == fill);
        CHECK(lock.head[17] == fill && lock.tail == fill);
        CHECK(lazyfree_read(page, lock, 4093, 3) && page[2] == fill);
        CHECK(!lazyfree_read(page, lock, 4093, 4));
        CHECK(LAZYFREE_LOCK_CHECK(lock));
        lazyfree_read_unlock(cache, lock, false);
    }
    lazyfree_rlock_t missing = lazyfree_read_lock(cache, 99);
    CHECK(!LAZYFREE_LOCK_CHECK(missing));
    lazyfree_read_unlock(cache, missing, false);
    lazyfree_cache_free(cache);
}

static void a_lock_notices_what_happens(void) {
    lazyfree_cache_t cache = lazyfree_cache_new(1 << 20);
    uint8_t byte;
    write_page(cache, 1, 1);
    lazyfree_rlock_t lock = lazyfree_read_lock(cache, 1);
    CHECK(LAZYFREE_LOCK_CHECK(lock));
    write_page(cache, 1, 2);
    CHECK(!LAZYFREE_LOCK_CHECK(lock) && !lazyfree_read(&byte, lock, 0, 1));
    lazyfree_read_unlock(cache, lock, true); /* is another's by now */

    lock = lazyfree_read_lock(cache, 1);
    CHECK(lazyfree_read(&byte, lock, 0, 1) && byte == 2);
    CHECK(coldpress_cache_take_as_the_kernel(cache, 1));
    CHECK(!LAZYFREE_LOCK_CHECK(lock) && !lazyfree_read(&byte, lock, 0, 1));

    write_page(cache, 1, 3);
    lock = lazyfree_read_lock(cache, 1);
    lazyfree_read_unlock(cache, lock, true);
    CHECK(!LAZYFREE_LOCK_CHECK(lock));
    lock = lazyfree_read_lock(cache, 1);
    CHECK(!LAZYFREE_LOCK_CHECK(lock));
    lazyfree_cache_free(cache);
}

static void upgrades_keep_what_was_seen(void) {
    lazyfree_cache_t cache = lazyfree_cache_new(1 << 20);
    write_page(cache, 5, 0);
    lazyfree_rlock_t lock = lazyfree_read_lock(cache, 5);
    uint8_t *page = lazyfree_write_upgrade(cache, &lock);
    CHECK(page && LAZYFREE_LOCK_CHECK(lock) && page[0] == 0 && page[PAGE_SIZE - 1] == 0);
    page[0] = 9;
    lazyfree_write_unlock(cache, false);
    CHECK(!LAZYFREE_LOCK_CHECK(lock));

    lock = lazyfree_read_lock(cache, 5);
    uint8_t byte;
    CHECK(lazyfree_read(&byte, lock, 0, 1) && byte == 9);
    coldpress_cache_take_as_the_kernel(cache, 5);
    page = lazyfree_write_upgrade(cache, &lock);
    CHECK(page && !LAZYFREE_LOCK_CHECK(lock));
    lazyfree_write_unlock(cache, true);
    lock = lazyfree_read_lock(cache, 5);
    CHECK(!LAZYFREE_LOCK_CHECK(lock));
    page = lazyfree_write_upgrade(cache, &lock);
    CHECK(page && !LAZYFREE_LOCK_CHECK(lock));
    memset(page, 4, PAGE_SIZE);
    lazyfree_write_unlock(cache, false);
    lock = lazyfree_read_lock(cache, 5);
    CHECK(lazyfree_read(&byte, lock, PAGE_SIZE - 1, 1) && byte == 4);
    lazyfree_cache_free(cache);
}

static pthread_barrier_t barrier;

static void *second_writer(void *cache) {
    pthread_barrier_wait(&barrier);
    errno = 0;
    CHECK(lazyfree_write_alloc(cache, 1) == NULL && errno == EBUSY);
    CHECK(strstr(coldpress_cache_error(), "locked"));
    CHECK(lazyfree_write_alloc(cache, 2));
    lazyfree_write_unlock(cache, false);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void several_threads_write(void) {
    lazyfree_cache_t cache = lazyfree_cache_new(1 << 20);
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pthread_create(&thread, NULL, second_writer, cache) == 0);
    CHECK(lazyfree_write_alloc(cache, 1));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    lazyfree_write_unlock(cache, false);
    pthread_join(thread, NULL);
    lazyfree_cache_free(cache);
}

static void fallthrough(struct lazyfree_impl impl, bool keeps) {
    uint64_t base = 1000;
    ft_cache_t cache;
    ft_cache_init(&cache, impl, 64 * PAGE_SIZE, sizeof(uint64_t), refill, &base);
    refills = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t key = 0; key < 10; key++) {
            uint64_t value;
            ft_cache_get(&cache, key, (uint8_t *)&value);
            CHECK(value == key * 3 + base);
        }
    CHECK(refills == (keeps ? 10 : 20));
    for (uint64_t key = 0; key < 10; key++) {
        CHECK(ft_cache_drop(&cache, key) == keeps);
        CHECK(!ft_cache_drop(&cache, key));
    }
    ft_cache_destroy(&cache);
}

static void small_entries_share_pages(void) {
    struct coldpress_cache_options options = {1 << 20, PAGE_SIZE, sizeof(lazyfree_rlock_t), 32, 0, 0, 0, 0, 0, 0, 1000, 0, 0, NULL};
    coldpress_cache *cache = coldpress_cache_new(&options);
    uint8_t bytes[COLDPRESS_CACHE_MOST_SMALL + 1], got[64];
    CHECK(cache);
    for (int key = 0; key < 500; key++) {
        memset(bytes, key, 40);
        CHECK(coldpress_cache_insert_small(cache, key, bytes, 40));
    }
    for (int key = 0; key < 500; key++) {
        CHECK(coldpress_cache_get_small(cache, key, got, sizeof(got)) == 40);
        CHECK(got[0] == (uint8_t)key && got[39] == (uint8_t)key);
    }
    struct coldpress_cache_stats stats;
    coldpress_cache_get_stats(cache, &stats);
    CHECK(stats.small_entries == 500 && stats.small_pages == 7 && stats.entries == 7);
    lazyfree_rlock_t lock = lazyfree_read_lock(cache, 7); /* a page of this key there is not */
    CHECK(!LAZYFREE_LOCK_CHECK(lock));
    CHECK(coldpress_cache_remove_small(cache, 3) && !coldpress_cache_remove_small(cache, 3));
    CHECK(coldpress_cache_get_small(cache, 3, got, sizeof(got)) == 0);
    CHECK(coldpress_cache_take_small_as_the_kernel(cache, 4));
    CHECK(coldpress_cache_get_small(cache, 5, got, sizeof(got)) == 0);
    CHECK(coldpress_cache_get_small(cache, 499, NULL, 0) == 40);
    errno = 0;
    CHECK(!coldpress_cache_insert_small(cache, 1, bytes, 0) && errno == EINVAL);
    CHECK(!coldpress_cache_insert_small(cache, 1, bytes, sizeof(bytes)) && errno == E2BIG);
    CHECK(strstr(coldpress_cache_error(), "2030"));
    coldpress_cache_free(cache);
    cache = lazyfree_cache_new(1 << 20);
    CHECK(!coldpress_cache_insert_small(cache, 1, bytes, 1) && errno == EINVAL);
    CHECK(strstr(coldpress_cache_error(), "small_entries"));
    CHECK(coldpress_cache_get_small(cache, 1, got, 1) == 0);
    coldpress_cache_free(cache);
}

static void what_costs_more_stays(void) {
    struct coldpress_cache_options options = {64 * PAGE_SIZE, PAGE_SIZE, sizeof(lazyfree_rlock_t), 0, 32, 0, 0, 0, 0, 64 * PAGE_SIZE, 0, 0, 0, NULL};
    coldpress_cache *cache = coldpress_cache_new(&options);
    CHECK(cache && !coldpress_cache_set_cost(cache, 1, 5));
    for (uint64_t key = 0; key < 5000; key++) {
        uint64_t *page = coldpress_cache_write_alloc(cache, key);
        CHECK(page);
        for (uint64_t i = 0; i < PAGE_SIZE / 8; i++)
            page[i] = key << 20 | (i * 7919 % 251);
        CHECK(key >= 10 || coldpress_cache_set_cost(cache, key, 1000));
        coldpress_cache_write_unlock(cache, false);
    }
    for (uint64_t key = 0; key < 20; key++) {
        uint64_t word;
        lazyfree_rlock_t lock = lazyfree_read_lock(cache, key);
        CHECK(lazyfree_read(&word, lock, 0, sizeof(word)) == (key < 10));
        CHECK(key >= 10 || word == key << 20);
    }
    coldpress_cache_free(cache);
}

static void say(const char *path, const char *average) {
    FILE *file = fopen(path, "w");
    CHECK(file && fprintf(file, "some avg10=%s avg60=0.00 avg300=0.00 total=1\n", average) > 0 && fclose(file) == 0);
}

static void memory_is_given_back_while_it_is_short(void) {
    char path[] = "/tmp/coldpress-cache-pressure-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && close(file) == 0);
    struct coldpress_cache_options options = {256 * PAGE_SIZE, PAGE_SIZE, sizeof(lazyfree_rlock_t), 0, 32, 0, 0, 0, 0,
                                              0, 0, 200 * PAGE_SIZE, 50 * PAGE_SIZE, path};
    coldpress_cache *cache = coldpress_cache_new(&options);
    struct coldpress_cache_stats stats;
    CHECK(cache);
    for (int key = 0; key < 1000; key++) {
        write_page(cache, key, 1);
        coldpress_cache_get_stats(cache, &stats);
        CHECK(stats.used_bytes <= 200 * PAGE_SIZE && stats.resident_bytes <= stats.used_bytes);
    }
    say(path, "1.00");
    CHECK(coldpress_cache_tend(cache) == 0);
    say(path, "40.00");
    CHECK(coldpress_cache_tend(cache) > 0);
    CHECK(coldpress_cache_tend_every(cache, 5));
    do {
        usleep(1000);
        coldpress_cache_get_stats(cache, &stats);
    } while (stats.used_bytes > 50 * PAGE_SIZE);
    CHECK(stats.shrunk_bytes > 0 && stats.soft_bytes == 50 * PAGE_SIZE && stats.hard_bytes == 200 * PAGE_SIZE);
    CHECK(coldpress_cache_tend_every(cache, 0) && coldpress_cache_tend_every(cache, 5));
    coldpress_cache_free(cache);
    unlink(path);
    options.soft_bytes = options.hard_bytes + 1;
    errno = 0;
    CHECK(coldpress_cache_new(&options) == NULL && errno == EINVAL && strstr(coldpress_cache_error(), "budget"));
}

static void impossible_caches_are_refused(void) {
    errno = 0;
    CHECK(lazyfree_cache_new(0) == NULL && errno == EINVAL);
    CHECK(strstr(coldpress_cache_error(), "capacity"));
    CHECK(lazyfree_cache_new((size_t)1 << 43) != NULL || errno == ENOMEM);
    CHECK(lazyfree_cache_new(SIZE_MAX) == NULL && errno == ENOMEM);
    struct coldpress_cache_options options = {1 << 20, 16384, sizeof(lazyfree_rlock_t), 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL};
    CHECK(coldpress_cache_new(&options) == NULL && errno == EINVAL);
    CHECK(strstr(coldpress_cache_error(), "16384"));
}

/* What ends the process: by the name of the mistake. */
static void misuse(const char *what) {
    lazyfree_cache_t cache = lazyfree_cache_new(1 << 20);
    lazyfree_cache_t other = lazyfree_cache_new(1 << 20);
    write_page(cache, 1, 1);
    lazyfree_rlock_t lock = lazyfree_read_lock(cache, 1);
    if (!strcmp(what, "double-lock")) {
        lazyfree_write_alloc(cache, 2);
        lazyfree_write_alloc(cache, 3);
    } else if (!strcmp(what, "double-upgrade")) {
        lazyfree_write_upgrade(cache, &lock);
        lazyfree_write_upgrade(cache, &lock);
    } else if (!strcmp(what, "unlock-without-lock")) {
        lazyfree_write_unlock(cache, false);
    } else if (!strcmp(what, "drop-without-lock")) {
        lazyfree_rlock_t none = {0};
        lazyfree_read_unlock(cache, none, true);
    } else if (!strcmp(what, "drop-upgraded")) {
        lazyfree_write_upgrade(cache, &lock);
        lazyfree_read_unlock(cache, lock, true);
    } else if (!strcmp(what, "lock-of-another-cache")) {
        lazyfree_read_unlock(other, lock, true);
    } else if (!strcmp(what, "free-while-locked")) {
        lazyfree_write_alloc(cache, 2);
        lazyfree_cache_free(cache);
    } else if (!strcmp(what, "null-cache")) {
        lazyfree_read_lock(NULL, 1);
    } else if (!strcmp(what, "entry-too-large")) {
        ft_cache_t ft;
        ft_cache_init(&ft, lazyfree_impl(), 1 << 20, PAGE_SIZE + 1, refill, NULL);
    } else if (!strcmp(what, "no-capacity")) {
        ft_cache_t ft;
        ft_cache_init(&ft, lazyfree_impl(), 0, 8, refill, NULL);
    }
    printf("went on\n");
}

int main(int argc, char **argv) {
    if (argc > 1) {
        misuse(argv[1]);
        return 0;
    }
    pages_come_back_whole();
    a_lock_notices_what_happens();
    upgrades_keep_what_was_seen();
    several_threads_write();
    fallthrough(lazyfree_impl(), true);
    fallthrough(lazyfree_anon_impl(), true);
    fallthrough(lazyfree_disk_impl(), true);
    fallthrough(lazyfree_stub_impl(), false);
    small_entries_share_pages();
    what_costs_more_stays();
    memory_is_given_back_while_it_is_short();
    impossible_caches_are_refused();
    printf("all passed\n");
    return 0;
}

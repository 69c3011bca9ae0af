/* Memory that grows over what was unmapped is new. The kernel tells the pager of the unmapping, and not of the growth.
 * A block is moved over evicted memory and grows as it moves. Other threads unmap blocks and map new ones, while a thread
 * has its own grow there: where it lies, and as it moves; some locked, which the kernel populates.
 * Arguments: seed, threads, milliseconds. */
#include "common.h"

enum { BLOCK_PAGES = 64, MOST_THREADS = 8, BLOCKS = 24 };

static int has_ended;
static _Atomic uint64_t grown_here, grown_elsewhere, grown_locked;

static void grow_as_it_moves(uint64_t round) {
    const size_t bytes = 4 * MIB, most = bytes / PAGE;
    for (size_t pages = 1; pages < most; pages *= 4) {
        char *place = map_region(bytes), *block = map_region(bytes);
        fill_region(place, bytes, 0, round);
        fill_region(block, pages * PAGE, most, round);
        settle(place, bytes);
        if (mremap(block, pages * PAGE, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place) die_errno("mremap");
        verify_region(place, pages * PAGE, most, round, "what has moved");
        verify_zero_region(place + pages * PAGE, bytes - pages * PAGE, "what it grew by");
        munmap(place, bytes);
        munmap(block + pages * PAGE, bytes - pages * PAGE);
    }
}

struct block {
    char *at;
    size_t pages;
    uint64_t id;
};

static void grow(struct block *b, uint64_t *state) {
    size_t pages = b->pages + 1 + rng(state) % (BLOCK_PAGES - b->pages);
    char *at = MAP_FAILED;
    /* Where it may not, it does without. */
    if (rng(state) % 4 == 0 && mlock(b->at, b->pages * PAGE) == 0) grown_locked++;
    if (rng(state) % 2) at = mremap(b->at, b->pages * PAGE, pages * PAGE, 0);
    if (at != MAP_FAILED) grown_here++;
    else {
        char *place = map_region(pages * PAGE);
        at = mremap(b->at, b->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (at != place) die_errno("mremap");
        grown_elsewhere++;
    }
    verify_region(at, b->pages * PAGE, b->id, b->pages, "before what it grew by");
    verify_zero_region(at + b->pages * PAGE, (pages - b->pages) * PAGE, "what a block grew by");
    *b = (struct block){.at = at, .pages = pages, .id = b->id};
    fill_region(at, pages * PAGE, b->id, pages);
}

static void *unmap_and_grow(void *argument) {
    uint64_t number = (uintptr_t)argument, state = seed * 100 + number;
    struct block blocks[BLOCKS];
    for (unsigned i = 0; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED); i++) {
        struct block *b = &blocks[i < BLOCKS ? i : rng(&state) % BLOCKS];
        if (i >= BLOCKS && b->pages < BLOCK_PAGES && rng(&state) % 2) {
            grow(b, &state);
            continue;
        }
        if (i >= BLOCKS && munmap(b->at, b->pages * PAGE)) die_errno("munmap");
        b->pages = 1 + rng(&state) % BLOCK_PAGES;
        b->at = map_region(b->pages * PAGE);
        b->id = (number << 32) + ((uint64_t)i << 8);
        fill_region(b->at, b->pages * PAGE, b->id, b->pages);
    }
    return argument;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 4);
    long milliseconds = argument(argc, argv, 3, 4000);
    if (threads > MOST_THREADS) die("arguments");
    for (uint64_t round = 1; round <= 3; round++) grow_as_it_moves(round);
    pthread_t handles[MOST_THREADS];
    for (unsigned t = 0; t < threads; t++) handles[t] = start_thread(unmap_and_grow, (void *)(uintptr_t)(t + 1));
    sleep_ms(milliseconds);
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    for (unsigned t = 0; t < threads; t++) join_thread(handles[t]);
    printf("OK %lu grown where they were, %lu elsewhere, %lu of them locked\n", (unsigned long)grown_here,
           (unsigned long)grown_elsewhere, (unsigned long)grown_locked);
}

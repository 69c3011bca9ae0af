/* Hazard: the kernel gives an unmapped address to another thread's mmap before the UNMAP event has
 * been read: a pager that forgets the range when it reads the event forgets the new owner's
 * pages. Threads unmap blocks, map new ones (the kernel likes to give what was just freed), fill
 * them, and verify blocks at random. Arguments: seed, threads, MiB in all, milliseconds. */
#include "common.h"

enum { BLOCK_PAGES = 32, MOST = 16 };
static const size_t BLOCK = BLOCK_PAGES * 4096;
static size_t blocks_each;
static uint64_t deadline;
static _Atomic uint64_t reuses, away;

static void *replace_blocks(void *context) {
    uint64_t me = (uintptr_t)context, state = seed * 100 + me, done = 0;
    char **blocks = map_region((blocks_each * sizeof *blocks + PAGE - 1) & -PAGE);
    for (size_t i = 0; i < blocks_each; i++) fill_region(blocks[i] = map_region(BLOCK), BLOCK, me << 20 | i * BLOCK_PAGES, 1);
    for (; now_ms() < deadline; done++) {
        for (unsigned k = 0; k < 40; k++) {
            size_t i = rng(&state) % blocks_each, p = rng(&state) % BLOCK_PAGES;
            verify_page(blocks[i] + p * PAGE, (me << 20 | i * BLOCK_PAGES) + p, 1, "block of another age");
        }
        size_t i = rng(&state) % blocks_each;
        away += absent_pages(blocks[i], BLOCK);
        if (munmap(blocks[i], BLOCK)) die_errno("munmap");
        blocks[i] = map_region(BLOCK);
        verify_zero(blocks[i], "new memory");
        fill_region(blocks[i], BLOCK, me << 20 | i * BLOCK_PAGES, 1);
    }
    for (size_t i = 0; i < blocks_each; i++)
        verify_region(blocks[i], BLOCK, me << 20 | i * BLOCK_PAGES, 1, "block at the end");
    reuses += done;
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 3);
    blocks_each = argument(argc, argv, 3, 48) * MIB / BLOCK / threads;
    deadline = now_ms() + argument(argc, argv, 4, 4000);
    pthread_t handles[MOST];
    for (uintptr_t t = 0; t < threads; t++) handles[t] = start_thread(replace_blocks, (void *)t);
    for (unsigned t = 0; t < threads; t++) join_thread(handles[t]);
    insist_away(away, "what is unmapped");
    printf("OK %llu reuses by %u threads\n", (unsigned long long)reuses, threads);
}

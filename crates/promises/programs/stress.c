/* Everything at once: threads that write, verify, fork, move, resize, unmap, remove and close
 * memory, each in blocks of its own. A page holds its id and a sequence number, and all its words
 * follow from them, so that a lost, stale, foreign or torn page is seen at its next
 * verification. A forked child verifies a sample of its thread's blocks and exits.
 *
 * What a thread does follows from the seed alone: a run of so many operations ends with the same
 * digest natively and managed. Arguments: seed, threads, MiB in all, seconds (0: no limit),
 * operations a thread (0: no limit). */
#include "common.h"

enum { BLOCK_PAGES = 64, MOST_THREADS = 32, MOST_BLOCKS = 4096 };

struct block {
    char *at;
    unsigned pages;
    uint32_t sequence[BLOCK_PAGES]; /* 0: never written, zero */
};

struct worker {
    unsigned index, count;
    uint64_t state, operations, forks, pages_verified, digest;
    struct block *blocks;
};

static struct worker workers[MOST_THREADS];
static size_t blocks_each;
static uint64_t deadline, operations_wanted;

static uint64_t page_id(const struct worker *w, const struct block *b, unsigned page) {
    return ((uint64_t)w->index << 24) + (uint64_t)(b - w->blocks) * BLOCK_PAGES + page;
}

static void check(struct worker *w, const struct block *b, unsigned page, const char *when) {
    if (b->sequence[page]) verify_page(b->at + page * PAGE, page_id(w, b, page), b->sequence[page], when);
    else verify_zero(b->at + page * PAGE, when);
    w->pages_verified++;
}

static void check_block(struct worker *w, const struct block *b, const char *when) {
    for (unsigned p = 0; p < b->pages; p++) check(w, b, p, when);
}

static void write_pages(struct worker *w, struct block *b, unsigned first, unsigned count) {
    for (unsigned p = first; p < first + count && p < b->pages; p++) {
        check(w, b, p, "before it is written");
        fill_page(b->at + p * PAGE, page_id(w, b, p), ++b->sequence[p]);
    }
}

static void move(struct worker *w, struct block *b) {
    unsigned pages = 1 + rng(&w->state) % BLOCK_PAGES, kept = pages < b->pages ? pages : b->pages;
    char *at = map_region(pages * PAGE); /* a new place, so that it really moves */
    if (mremap(b->at, b->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) die_errno("mremap");
    b->at = at;
    b->pages = pages;
    for (unsigned p = kept; p < pages; p++) b->sequence[p] = 0;
    check_block(w, b, "after mremap");
}

static void replace(struct worker *w, struct block *b) {
    if (munmap(b->at, b->pages * PAGE)) die_errno("munmap");
    b->pages = 1 + rng(&w->state) % BLOCK_PAGES;
    b->at = map_region(b->pages * PAGE);
    memset(b->sequence, 0, sizeof b->sequence);
    check(w, b, rng(&w->state) % b->pages, "fresh memory");
    write_pages(w, b, 0, b->pages);
}

static void remove_pages(struct worker *w, struct block *b) {
    unsigned first = rng(&w->state) % b->pages, count = 1 + rng(&w->state) % (b->pages - first);
    if (madvise(b->at + first * PAGE, count * PAGE, MADV_DONTNEED)) die_errno("madvise");
    memset(b->sequence + first, 0, count * sizeof *b->sequence);
    check_block(w, b, "after MADV_DONTNEED");
    write_pages(w, b, 0, b->pages);
}

static void close_and_open(struct worker *w, struct block *b) {
    if (mprotect(b->at, b->pages * PAGE, PROT_NONE)) die_errno("mprotect");
    sched_yield();
    if (mprotect(b->at, b->pages * PAGE, PROT_READ | PROT_WRITE)) die_errno("mprotect");
    check_block(w, b, "after PROT_NONE");
}

static void fork_and_verify(struct worker *w) {
    pid_t pid = fork();
    if (pid < 0) die_errno("fork");
    if (pid == 0) {
        for (unsigned i = 0; i < 12; i++) check_block(w, &w->blocks[rng(&w->state) % w->count], "child");
        struct block *b = &w->blocks[rng(&w->state) % w->count];
        write_pages(w, b, 0, b->pages);
        check_block(w, b, "child's own version");
        _exit(0);
    }
    if (wait_exit(pid, "child")) die("a child failed");
    w->forks++;
}

static void *work(void *context) {
    struct worker *w = context;
    for (uint64_t n = 0; !operations_wanted || n < operations_wanted; n++, w->operations++) {
        if (deadline && n % 64 == 0 && now_ms() > deadline) break;
        struct block *b = &w->blocks[rng(&w->state) % w->count];
        unsigned what = rng(&w->state) % 1024, page = rng(&w->state) % b->pages;
        if (what < 700) check(w, b, page, "at rest");
        else if (what < 940) write_pages(w, b, page, 1);
        else if (what < 980) check_block(w, b, "block at rest");
        else if (what < 995) write_pages(w, b, 0, b->pages);
        else if (what < 1003) move(w, b);
        else if (what < 1011) replace(w, b);
        else if (what < 1017) remove_pages(w, b);
        else if (what < 1023) close_and_open(w, b);
        else if (rng(&w->state) % 4 == 0) fork_and_verify(w);
    }
    for (unsigned i = 0; i < w->count; i++) {
        check_block(w, &w->blocks[i], "at the end");
        for (unsigned p = 0; p < w->blocks[i].pages; p++)
            w->digest = mix(w->digest ^ ((uint64_t *)(w->blocks[i].at + p * PAGE))[8 * (p % 64)]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 3);
    size_t bytes = argument(argc, argv, 3, 64) * MIB;
    long seconds = argument(argc, argv, 4, 5);
    operations_wanted = argument(argc, argv, 5, 0);
    if (seconds) deadline = now_ms() + seconds * 1000;
    blocks_each = bytes / PAGE / (BLOCK_PAGES / 2) / threads;
    if (blocks_each == 0 || blocks_each > MOST_BLOCKS || threads > MOST_THREADS) die("arguments");
    pthread_t handles[MOST_THREADS];
    for (unsigned t = 0; t < threads; t++) {
        struct worker *w = &workers[t];
        *w = (struct worker){.index = t, .count = blocks_each, .state = seed * 1000 + t};
        w->blocks = calloc(blocks_each, sizeof *w->blocks);
        for (unsigned i = 0; i < blocks_each; i++) {
            w->blocks[i].pages = 1 + rng(&w->state) % BLOCK_PAGES;
            w->blocks[i].at = map_region(w->blocks[i].pages * PAGE);
            write_pages(w, &w->blocks[i], 0, w->blocks[i].pages);
        }
    }
    for (unsigned t = 0; t < threads; t++) handles[t] = start_thread(work, &workers[t]);
    uint64_t operations = 0, forks = 0, verified = 0, digest = 0;
    for (unsigned t = 0; t < threads; t++) {
        join_thread(handles[t]);
        operations += workers[t].operations;
        forks += workers[t].forks;
        verified += workers[t].pages_verified;
        digest ^= mix(workers[t].digest + t);
    }
    printf("OK %llu operations, %llu pages verified, %llu forks, digest %#llx\n", (unsigned long long)operations,
           (unsigned long long)verified, (unsigned long long)forks, (unsigned long long)digest);
}

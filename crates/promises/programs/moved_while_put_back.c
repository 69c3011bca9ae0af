/* Hazard: mremap moves memory in the moment in which a page is about to be put back there. The kernel
 * answers ENOENT, as for memory that is gone, though the page belongs to where the memory went. Half of
 * the pages do not compress, so they are put back as soon as they are taken; the others are restored
 * ahead of a thread that goes through them and moves them in the middle. Arguments: seed, moves. */
#include "common.h"

enum { PAGES = 1024 };

static void fill_noise(void *page, uint64_t id, uint64_t version) {
    uint64_t state = mix(seed) ^ mix(id << 32 ^ version), *words = page;
    for (unsigned i = 0; i < WORDS; i++) words[i] = rng(&state);
}

static void check(const char *page, unsigned n, uint64_t version) {
    if (n % 2 == 0) {
        verify_page(page, n, version, "after it moved");
        return;
    }
    uint64_t wanted[WORDS];
    fill_noise(wanted, n, version);
    if (memcmp(page, wanted, PAGE))
        die("after it moved: page %u at %p, which does not compress, is %s", n, page, is_zero(page) ? "zeros" : "wrong");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long moves = argument(argc, argv, 2, 2000);
    /* A page off, so that page tables cannot be moved as a whole. */
    char *places[2] = {map_region((PAGES + 512) * PAGE), (char *)map_region((PAGES + 512) * PAGE) + PAGE};
    char *at = places[0];
    for (unsigned n = 0; n < PAGES; n++)
        if (n % 2) fill_noise(at + n * PAGE, n, 0);
        else fill_page(at + n * PAGE, n, 0);
    settle(at, PAGES * PAGE);
    uint64_t state = seed;
    for (long move = 1; move <= moves; move++) {
        char *to = places[move % 2];
        unsigned first = rng(&state) % (PAGES - 64);
        for (unsigned n = first; n < first + 32; n++) check(at + n * PAGE, n, 0);
        if (mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) die_errno("mremap");
        at = to;
        for (unsigned n = first + 32; n < first + 64; n++) check(at + n * PAGE, n, 0);
        if (move % 16 == 0)
            for (unsigned n = 0; n < PAGES; n++) check(at + n * PAGE, n, 0);
    }
    printf("OK %ld moves\n", moves);
}

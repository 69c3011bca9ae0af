/* Hazard: without EVENT_REMAP the moved range reads zeros, and what was at the new place comes
 * back. Blocks are moved, grown, shrunk, moved over other blocks and copied away with
 * MREMAP_DONTUNMAP; big malloc chunks grow by realloc (which is mremap). Every page must hold
 * what its block says, zeros where memory is new. Arguments: seed, blocks, milliseconds. */
#include "common.h"

enum { LARGEST = 256 }; /* pages */

struct block {
    char *at;
    size_t pages;
    uint64_t id, version;
};

static uint64_t next_version = 1;
static size_t resized_away, moved_away, kept_mapped_away, grown_away;

static void refill(struct block *b) {
    b->version = next_version++;
    fill_region(b->at, b->pages * PAGE, b->id, b->version);
}

static void verify(struct block *b, const char *when) { verify_region(b->at, b->pages * PAGE, b->id, b->version, when); }

static void resize(struct block *b, size_t pages) {
    size_t kept = pages < b->pages ? pages : b->pages;
    resized_away += absent_pages(b->at, b->pages * PAGE);
    char *at = mremap(b->at, b->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
    if (at == MAP_FAILED) die_errno("mremap to another size");
    b->at = at;
    verify_region(at, kept * PAGE, b->id, b->version, "resized block");
    verify_zero_region(at + kept * PAGE, (pages - kept) * PAGE, "grown part");
    b->pages = pages;
    fill_region(at + kept * PAGE, (pages - kept) * PAGE, b->id + kept, b->version);
}

/* Moves `b` over the memory of `victim`, which gets new memory. */
static void move_over(struct block *b, struct block *victim) {
    size_t pages = b->pages < victim->pages ? b->pages : victim->pages;
    if (b->pages > pages) resize(b, pages);
    moved_away += absent_pages(b->at, pages * PAGE);
    char *to = victim->at;
    if (mremap(b->at, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
        die_errno("mremap over managed memory");
    b->at = to;
    verify(b, "block moved over another");
    if (victim->pages > pages) { /* the victim's tail stays where it is */
        verify_region(to + pages * PAGE, (victim->pages - pages) * PAGE, victim->id + pages, victim->version,
                      "tail of the covered block");
        munmap(to + pages * PAGE, (victim->pages - pages) * PAGE);
    }
    victim->at = map_region(victim->pages * PAGE);
    verify_zero_region(victim->at, victim->pages * PAGE, "new memory");
    refill(victim);
}

static void move_and_keep_mapped(struct block *b) {
    kept_mapped_away += absent_pages(b->at, b->pages * PAGE);
    char *to = mremap(b->at, b->pages * PAGE, b->pages * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (to == MAP_FAILED) die_errno("mremap with DONTUNMAP");
    verify_zero_region(b->at, b->pages * PAGE, "source of MREMAP_DONTUNMAP");
    munmap(b->at, b->pages * PAGE);
    b->at = to;
    verify(b, "destination of MREMAP_DONTUNMAP");
}

static void grow_by_realloc(uint64_t *state) {
    size_t words = 40000;
    uint64_t *p = malloc(words * 8), base = rng(state);
    for (size_t i = 0; i < words; i++) p[i] = base + i;
    for (unsigned step = 0; step < 6; step++) {
        sleep_ms(20); /* the pager's time */
        size_t larger = words + words / 2;
        char *whole = (char *)(((uintptr_t)p + PAGE - 1) & -PAGE);
        grown_away += absent_pages(whole, ((char *)(p + words) - whole) & -PAGE);
        p = realloc(p, larger * 8);
        for (size_t i = 0; i < words; i++)
            if (p[i] != base + i)
                die("realloc: word %zu at %p: expected %#llx, found %#llx", i, (void *)&p[i],
                    (unsigned long long)(base + i), (unsigned long long)p[i]);
        for (size_t i = words; i < larger; i++) p[i] = base + i;
        words = larger;
    }
    free(p);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned count = argument(argc, argv, 2, 48);
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000), state = seed, operations = 0;
    struct block blocks[256];
    for (unsigned i = 0; i < count; i++) {
        size_t pages = 1 + rng(&state) % LARGEST;
        blocks[i] = (struct block){map_region(pages * PAGE), pages, (uint64_t)i << 12, 0};
        refill(&blocks[i]);
    }
    for (; now_ms() < deadline; operations++) {
        unsigned i = rng(&state) % count, j = rng(&state) % count;
        if (rng(&state) % 4 == 0) verify(&blocks[i], "block at rest"); /* the others may be away */
        switch (rng(&state) % 5) {
        case 0:
        case 1:
            resize(&blocks[i], 1 + rng(&state) % LARGEST);
            break;
        case 2:
            if (i != j) move_over(&blocks[i], &blocks[j]);
            break;
        case 3:
            move_and_keep_mapped(&blocks[i]);
            break;
        default:
            if (operations % 40 == 4) grow_by_realloc(&state);
            refill(&blocks[i]);
        }
    }
    for (unsigned i = 0; i < count; i++) verify(&blocks[i], "block at the end");
    insist_away(resized_away, "resized blocks");
    insist_away(moved_away, "blocks moved over others");
    insist_away(kept_mapped_away, "blocks moved with DONTUNMAP");
    insist_away(grown_away, "chunks that grow");
    printf("OK %llu operations on pages away: %zu resized, %zu moved, %zu kept mapped, %zu grown\n",
           (unsigned long long)operations, resized_away, moved_away, kept_mapped_away, grown_away);
}

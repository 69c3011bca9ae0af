/* Hazard: memory is unmapped and its address used again: stale content in a new mapping. The
 * address is reused by anonymous memory (zeros), by a mapping placed over the old one, by a
 * file and by shared memory (their bytes). Arguments: seed, MiB, milliseconds. */
#include "common.h"

enum { SLOT_PAGES = 64 };
static const size_t SLOT = SLOT_PAGES * 4096;

static void map_over(char *at, int flags, int file) {
    if (mmap(at, SLOT, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) != at) die_errno("mmap at a used address");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB, slots = bytes / SLOT;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000), state = seed, reuses = 0, away = 0;
    char *region = map_region(bytes);
    int file = memfd_create("unmap_reuse", 0);
    if (file < 0 || ftruncate(file, SLOT)) die_errno("memfd_create");
    char *shared = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    fill_region(shared, SLOT, 1 << 20, 9);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    for (; now_ms() < deadline; reuses++) {
        size_t slot = rng(&state) % slots;
        char *at = region + slot * SLOT;
        away += absent_pages(at, SLOT);
        unsigned how = rng(&state) % 5;
        if (how == 0) verify_region(at, SLOT, slot * SLOT_PAGES, 1, "slot at rest");
        if (how < 2 && munmap(at, SLOT)) die_errno("munmap");
        if (how == 3) {
            map_over(at, MAP_SHARED, file);
            verify_region(at, SLOT, 1 << 20, 9, "shared memory at a used address");
        } else if (how == 4) {
            map_over(at, MAP_PRIVATE, file);
            verify_region(at, SLOT, 1 << 20, 9, "file at a used address");
            fill_page(at, 5, 5); /* copied on write: the file keeps its bytes */
            verify_page(shared, 1 << 20, 9, "file after a private write");
        }
        map_over(at, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        verify_zero_region(at, SLOT, "new memory at a used address");
        fill_region(at, SLOT, slot * SLOT_PAGES, 1);
    }
    verify_region(region, bytes, 0, 1, "at the end");
    insist_away(away, "what is unmapped or mapped over");
    printf("OK %llu reuses\n", (unsigned long long)reuses);
}

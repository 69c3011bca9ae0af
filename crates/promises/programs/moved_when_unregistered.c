/* Hazard: memory grows in place, so that its new end is registered without the pager having noted it; what lay before is
 * dropped and touched again until the pager unregisters it; then all of it is moved by one call. The kernel (since 6.17)
 * moves what is not registered and stops at what is: the call failed, and tore the memory in two.
 * Arguments: seed, rounds, first page that is used, page behind the last. */
#include "common.h"

#define SMALL (4 * MIB)
#define LARGE (12 * MIB)
#define ROOM (16 * MIB)
#define OTHER (32 * MIB)

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 3);
    size_t first = argument(argc, argv, 3, 300), end = argument(argc, argv, 4, 900);
    size_t bytes = (end - first) * PAGE;
    char *other = map_region(OTHER);
    fill_region(other, OTHER, 1 << 20, 1);
    for (long round = 0; round < rounds; round++) {
        /* Room to grow into. */
        char *memory = map_region(ROOM);
        if (munmap(memory + SMALL, ROOM - SMALL)) die_errno("munmap");
        fill_region(memory + first * PAGE, bytes, first, round);
        sleep_ms(500);
        if (mremap(memory, SMALL, LARGE, 0) != memory) die_errno("growing in place");
        for (int again = 0; again < 30; again++) {
            if (madvise(memory + first * PAGE, bytes, MADV_DONTNEED)) die_errno("madvise");
            for (size_t i = first; i < end; i++) memory[i * PAGE] = 1;
        }
        fill_region(memory + first * PAGE, bytes, first, round + 100);
        char *to = mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (to == MAP_FAILED) die_errno("a place to move to");
        if (mremap(memory, LARGE, LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) die_errno("moving");
        verify_region(to + first * PAGE, bytes, first, round + 100, "moved");
        if (munmap(to, LARGE)) die_errno("munmap");
    }
    verify_region(other, OTHER, 1 << 20, 1, "other memory");
    printf("OK %ld rounds\n", rounds);
}

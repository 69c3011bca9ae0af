/* Compressed pages are freed here and there, so that storage is left full of holes; then, while
 * storage may be being compacted, what was kept is read, written and freed as well.
 * Arguments: seed, MiB, rounds. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 48) * MIB;
    long rounds = argument(argc, argv, 3, 3);
    size_t pages = bytes / PAGE;
    char *region = map_region(bytes);
    for (long round = 0; round < rounds; round++) {
        fill_region(region, bytes, 0, round);
        settle(region, bytes);
        for (size_t i = 0; i < pages; i++)
            if (i % 3 != (size_t)round % 3 && madvise(region + i * PAGE, PAGE, MADV_DONTNEED)) die_errno("madvise");
        sleep_ms(managed() ? 300 : 1); /* the pager has nothing else to do now */
        for (size_t i = 0; i < pages; i++) {
            char *page = region + i * PAGE;
            if (i % 3 != (size_t)round % 3) verify_zero(page, "freed");
            else if (i % 5) verify_page(page, i, round, "kept");
            else {
                fill_page(page, i, round + 100);
                verify_page(page, i, round + 100, "written again");
            }
        }
    }
    printf("OK %zu MiB, %ld rounds\n", bytes / MIB, rounds);
}

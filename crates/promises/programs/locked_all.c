/* Hazard: mlockall. Whatever the program has becomes resident at once, whatever it maps later is so from the
 * start, and stays so under pressure until it is unlocked. Arguments: seed, rounds. */
#include "common.h"

enum { BYTES = 8 << 20 };

static void check_resident(char *region, size_t bytes, const char *which) {
    size_t absent = absent_pages(region, bytes);
    if (absent) die("%s: %zu of %zu locked pages are not resident", which, absent, bytes / PAGE);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 4);
    char *region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    for (long round = 0; round < rounds; round++) {
        settle(region, BYTES);
        if (mlockall(MCL_CURRENT | MCL_FUTURE)) skip("mlockall is refused");
        check_resident(region, BYTES, "what was there");
        char *later = map_region(BYTES);
        check_resident(later, BYTES, "what came later");
        verify_zero_region(later, BYTES, "fresh memory");
        fill_region(later, BYTES, 10000, round);
        for (int look = 0; look < 50; look++) {
            sleep_ms(5);
            check_resident(region, BYTES, "what was there, under pressure");
            check_resident(later, BYTES, "what came later, under pressure");
        }
        verify_region(region, BYTES, 0, 1, "locked");
        if (munlockall()) die_errno("munlockall");
        settle(region, BYTES);
        verify_region(later, BYTES, 10000, round, "unlocked");
        verify_region(region, BYTES, 0, 1, "unlocked");
        munmap(later, BYTES);
    }
    printf("OK %ld rounds\n", rounds);
}

/* Hazard: a restore that needs a frame beyond the memory group's limit gets the program
 * OOM-killed, not an error. The content is larger than the limit; a hot part, a cold part and
 * random touches make restores happen while the group is full. Arguments: seed, MiB, passes, milliseconds for
 * each MiB of the first content (0: as fast as the machine can). */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 96) * MIB;
    long passes = argument(argc, argv, 3, 3);
    char *region = map_region(bytes);
    size_t pages = bytes / PAGE;
    long pace_ms = argument(argc, argv, 4, 0);
    for (size_t done = 0; done < bytes; done += MIB) {
        fill_region(region + done, MIB, done / PAGE, 0);
        if (pace_ms) sleep_ms(pace_ms);
    }
    uint64_t state = seed;
    for (long pass = 0; pass < passes; pass++) {
        for (size_t i = 0; i < pages; i++) {
            verify_page(region + i * PAGE, i, pass, "sweep");
            fill_page(region + i * PAGE, i, pass + 1);
        }
        for (size_t k = 0; k < pages / 2; k++) {
            size_t i = rng(&state) % pages;
            verify_page(region + i * PAGE, i, pass + 1, "random touch");
        }
    }
    verify_region(region, bytes, 0, passes, "at the end");
    printf("OK %zu MiB, %ld passes\n", bytes / MIB, passes);
}

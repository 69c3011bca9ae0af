/* One page in eight is used all the time, the others never again. What stays in place at the end is
 * for the caller to see. Arguments: seed, MiB, milliseconds. */
#include "common.h"

enum { HOT_OF = 8 };

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB;
    uint64_t until = now_ms() + argument(argc, argv, 3, 3000);
    size_t pages = bytes / PAGE;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    long rounds = 0;
    while (now_ms() < until) {
        for (size_t i = 0; i < pages; i += HOT_OF) verify_page(region + i * PAGE, i, 0, "hot");
        rounds++;
    }
    printf("OK %zu MiB, %ld rounds\n", bytes / MIB, rounds > 0 ? 1L : 0L);
}

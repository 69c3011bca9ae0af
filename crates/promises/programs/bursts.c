/* Bursts of touches at random, with pauses between them, and then one long burst: a program that wakes again and again,
 * and uses other pages each time. Every touched page is compared.
 * Arguments: seed, MiB, bursts, touches in each; the last has ten times as many. */
#include "common.h"

static size_t pages;
static char *region;

static void touch(uint64_t *state, long count) {
    while (count--) {
        size_t page = rng(state) % pages;
        verify_page(region + page * PAGE, page, 0, "touched at random");
    }
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 48) * MIB;
    long bursts = argument(argc, argv, 3, 12), touches = argument(argc, argv, 4, 6000);
    uint64_t state = seed;
    pages = bytes / PAGE;
    region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    settle(region, bytes);
    for (long burst = 0; burst < bursts; burst++) {
        touch(&state, touches);
        usleep(100 * 1000);
    }
    touch(&state, 10 * touches);
    printf("OK %zu MiB, %ld bursts\n", bytes / MIB, bursts);
}

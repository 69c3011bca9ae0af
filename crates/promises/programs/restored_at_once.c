/* Story: a program that had slept read all its memory in half a second; the frames of what had been stored went back to
 * the kernel when the sleeper was looked at again, and until then memory was 39 to 59 MiB more than natively.
 * Arguments: seed, MiB. Says how much more than its pages it held at most while it read. */
#include "common.h"

/* A quarter of it is random. */
static uint32_t word(size_t page, size_t k, uint32_t *random) {
    if (k % 4) return (uint32_t)(k * 7 + page);
    return *random = *random * 1664525 + 1013904223;
}

static long held(void) {
    long size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld %ld", &size, &resident, &shared) != 3) die("no statm");
    fclose(file);
    return resident - shared;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t pages = argument(argc, argv, 2, 512) * MIB / PAGE;
    long before = held(), most = 0;
    char *region = map_region(pages * PAGE);
    for (size_t n = 0; n < pages; n++) {
        uint32_t random = (uint32_t)mix(n), *words = (uint32_t *)(region + n * PAGE);
        for (size_t k = 0; k < PAGE / 4; k++) words[k] = word(n, k, &random);
    }
    for (int tries = 0; managed() && absent_pages(region, pages * PAGE) < pages / 100 * 95; tries++) {
        if (tries == 400) die("only %zu of %zu pages are away", absent_pages(region, pages * PAGE), pages);
        sleep_ms(100);
    }
    sleep_ms(2000);
    for (size_t n = 0; n < pages; n++) {
        uint32_t random = (uint32_t)mix(n), *words = (uint32_t *)(region + n * PAGE);
        for (size_t k = 0; k < PAGE / 4; k++)
            if (words[k] != word(n, k, &random)) die("page %zu is wrong", n);
        if (n % 256 == 0 && held() > most) most = held();
    }
    printf("OK %ld MiB more than its pages at most\n", (most - before - (long)pages) / (long)(MIB / PAGE));
}

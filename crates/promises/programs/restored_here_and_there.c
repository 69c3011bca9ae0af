/* Memory is away and comes back page by page, here and there, until little is left away: what was stored must
 * not stay beside it. The pager takes pages only above the budget (--trigger critical), and there is room now.
 * Arguments: seed, MiB of the region, MiB that press beside it. */
#include "common.h"

/* Private anonymous memory beyond the region's pages that are in place. */
static long others(char *region, size_t pages) {
    long size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld %ld", &size, &resident, &shared) != 3) die("no statm");
    fclose(file);
    return (resident - shared) - (long)(pages - absent_pages(region, pages * PAGE));
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t pages = argument(argc, argv, 2, 96) * MIB / PAGE, ballast_bytes = argument(argc, argv, 3, 128) * MIB;
    char *region = map_region(pages * PAGE);
    madvise(region, pages * PAGE, MADV_NOHUGEPAGE);
    long before = others(region, pages);
    fill_region(region, pages * PAGE, 0, 0);
    size_t away = 0;
    for (int round = 0; managed() && away < pages / 100 * 95; round++) {
        if (round == 20) die("only %zu of %zu pages are away", away, pages);
        char *ballast = map_region(ballast_bytes);
        fill_region(ballast, ballast_bytes, 1u << 30, round);
        away = absent_pages(region, pages * PAGE);
        munmap(ballast, ballast_bytes);
    }
    long stored = others(region, pages);
    for (size_t n = 0; n < pages; n++) {
        size_t i = n * 5791 % pages; /* each once: it is a prime */
        if (mix(i) % 16) verify_page(region + i * PAGE, i, 0, "back");
    }
    long limit = before + 7 * MIB / PAGE, after = 0;
    for (int tries = 0; tries < 100; tries++) {
        after = others(region, pages);
        if (after <= limit) break;
        sleep_ms(100);
    }
    size_t still = absent_pages(region, pages * PAGE);
    if (managed() && (still < pages / 32 || still > pages / 8)) die("%zu pages are still away", still);
    if (after > limit) die("%ld pages beside those in place: %ld before, %ld with all away", after, before, stored);
    verify_region(region, pages * PAGE, 0, 0, "at the end");
    printf("OK %zu of %zu pages were away, %zu stayed; others: %ld, then %ld, then %ld\n", away, pages, still, before,
           stored, after);
}

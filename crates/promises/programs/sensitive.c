/* Memory that is said to be latency-sensitive is never taken, and what was taken of it comes back at once;
 * memory that is no longer so is like any other. mincore tells what is in place.
 * Arguments: seed, MiB, milliseconds to wait. */
#include "common.h"
#include "../../preload/include/coldpress.h"

static size_t in_place(char *region, size_t bytes) {
    static unsigned char seen[64 << 8];
    size_t count = 0;
    if (mincore(region, bytes, seen)) die_errno("mincore");
    for (size_t i = 0; i < bytes / PAGE; i++) count += seen[i] & 1;
    return count;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 16) * MIB, half = bytes / 2;
    unsigned wait = (unsigned)argument(argc, argv, 3, 1500);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    if (!managed()) {
        if (coldpress_advise_if_managed(region, half, COLDPRESS_LATENCY_SENSITIVE)) die_errno("advise");
        printf("OK %zu MiB, no pager\n", bytes / MIB);
        return 0;
    }
    if (!coldpress_advise) die("no coldpress_advise");
    if (coldpress_advise(region + 1, half, COLDPRESS_LATENCY_SENSITIVE) != -1 || errno != EINVAL) die("odd address");
    if (coldpress_advise(region, half, 7) != -1 || errno != EINVAL) die("unknown advice");
    if (coldpress_advise(region, (size_t)-PAGE, COLDPRESS_NORMAL) != -1 || errno != EINVAL) die("wraps around");
    sleep_ms(wait);
    size_t before = in_place(region, half);
    if (before > half / PAGE / 2) die("nothing was taken");
    if (coldpress_advise(region, half, COLDPRESS_LATENCY_SENSITIVE)) die_errno("advise");
    size_t back = in_place(region, half);
    if (back != half / PAGE) die("not all is back");
    sleep_ms(wait);
    size_t stays = in_place(region, half), others = in_place(region + half, half);
    if (stays != half / PAGE) die("latency-sensitive memory was taken");
    if (others > half / PAGE / 2) die("other memory was not taken");
    /* The middle of it is like any other again. */
    if (coldpress_advise(region + half / 4, half / 2, COLDPRESS_NORMAL)) die_errno("advise");
    sleep_ms(wait);
    if (in_place(region, half / 4) + in_place(region + half / 4 * 3, half / 4) != half / PAGE / 2) die("the ends were taken");
    if (in_place(region + half / 4, half / 2) > half / PAGE / 4) die("the middle was not taken");
    verify_region(region, bytes, 0, 0, "after all");
    printf("OK %zu of %zu pages in place, %zu when they are sensitive\n", before, half / PAGE, stays);
}

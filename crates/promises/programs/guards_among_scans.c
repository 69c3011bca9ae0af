/* Hazard: guards are installed in cold memory right behind what another thread scans. The pager reads ahead for the scan,
 * and the kernel lets a page that is put in place replace a guard: the guard would be gone, and its page hold what it
 * held before. Arguments: seed, milliseconds. */
#include "common.h"

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103, REGIONS = 64, SCANNED = 48, GUARDED = 16 };

static char *regions[REGIONS];
static char *_Atomic scan;
static _Atomic int done;

static void *scans(void *context) {
    (void)context;
    while (!done) {
        const char *region = scan;
        if (!region) continue;
        for (size_t page = 0; page < SCANNED; page++) (void)*(volatile const char *)(region + page * PAGE);
        scan = NULL;
    }
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t until = now_ms() + argument(argc, argv, 2, 3000), state = seed;
    size_t bytes = (SCANNED + GUARDED) * PAGE;
    char *all = map_region(REGIONS * bytes);
    for (size_t n = 0; n < REGIONS; n++) regions[n] = all + n * bytes;
    pthread_t thread = start_thread(scans, NULL);
    long installed = 0, away = 0;
    for (uint64_t round = 0; now_ms() < until; round++) {
        for (size_t n = 0; n < REGIONS; n++) fill_region(regions[n], bytes, n * 1000, round);
        settle(all, REGIONS * bytes);
        for (size_t n = 0; n < REGIONS; n++) {
            char *guarded = regions[n] + SCANNED * PAGE;
            away += absent_pages(guarded, GUARDED * PAGE);
            scan = regions[n];
            for (uint64_t spin = rng(&state) % 20000; spin && scan; spin--) __asm__ volatile("pause");
            if (madvise(guarded, GUARDED * PAGE, GUARD_INSTALL)) {
                if (errno == EINVAL) skip("MADV_GUARD_INSTALL");
                die_errno("MADV_GUARD_INSTALL");
            }
            while (scan) sleep_ms(1);
            if (madvise(guarded, GUARDED * PAGE, GUARD_REMOVE)) die_errno("MADV_GUARD_REMOVE");
            verify_zero_region(guarded, GUARDED * PAGE, "where guards were");
            verify_region(regions[n], SCANNED * PAGE, n * 1000, round, "what was scanned");
            installed++;
        }
    }
    done = 1;
    join_thread(thread);
    if (managed() && away < installed) die("only %ld pages were away where %ld guards were put: the hazard was not met", away, installed);
    printf("OK %ld times\n", installed);
}

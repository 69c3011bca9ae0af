/* Hazard: after MADV_DONTNEED a fault looks like any other: without EVENT_REMOVE the pager would
 * restore stale content where the program is promised zeros. MADV_FREE may give zeros or the old
 * page, never anything else, and a later write stays. A second thread reads the same pages at
 * the same time, so that restores race with removals. MADV_GUARD_INSTALL (Linux 6.13) drops pages without any
 * event. Arguments: seed, MiB, milliseconds. */
#include "common.h"

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static char *region;
static size_t pages;
static _Atomic int stop;
static size_t removed_away, freed_away, guarded_away;

/* Only touches: the bytes read are changing under it. */
static void *read_along(void *unused) {
    uint64_t state = seed + 77, sum = 0;
    while (!stop) sum += *(volatile char *)(region + rng(&state) % pages * PAGE);
    return unused ? (void *)sum : NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000), state = seed, removed = 0, freed = 0, kept = 0;
    region = map_region(bytes);
    pages = bytes / PAGE;
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    pthread_t reader = start_thread(read_along, NULL);
    while (now_ms() < deadline) {
        size_t count = 1 + rng(&state) % 200, first = rng(&state) % (pages - count);
        char *at = region + first * PAGE;
        if (rng(&state) % 3) {
            removed_away += absent_pages(at, count * PAGE);
            if (madvise(at, count * PAGE, MADV_DONTNEED)) die_errno("MADV_DONTNEED");
            if (rng(&state) % 2) sched_yield();
            verify_zero_region(at, count * PAGE, "after MADV_DONTNEED");
            removed += count;
        } else {
            if (rng(&state) % 2) verify_region(at, count * PAGE, first, 1, "before MADV_FREE");
            freed_away += absent_pages(at, count * PAGE);
            if (madvise(at, count * PAGE, MADV_FREE)) die_errno("MADV_FREE");
            fill_page(at, first, 2); /* a write after the advice stays */
            if (rng(&state) % 2) sleep_ms(3);
            verify_page(at, first, 2, "written after MADV_FREE");
            for (size_t k = 1; k < count; k++) {
                int wrong = first_wrong(at + k * PAGE, first + k, 1);
                if (wrong < 0) kept++;
                else verify_zero(at + k * PAGE, "after MADV_FREE, neither old nor zero");
            }
            freed += count;
        }
        fill_region(at, count * PAGE, first, 1);
        if (first) verify_page(at - PAGE, first - 1, 1, "page before the removed range");
        if (first + count < pages) verify_page(at + count * PAGE, first + count, 1, "page behind the removed range");
    }
    stop = 1;
    join_thread(reader);
    verify_region(region, bytes, 0, 1, "at the end");
    unsigned guarded = 0; /* nobody else may touch a guard */
    for (; guarded < 100; guarded++) {
        size_t count = 1 + rng(&state) % 200, first = rng(&state) % (pages - count);
        char *at = region + first * PAGE;
        if (guarded % 10 == 0) settle(region, bytes);
        guarded_away += absent_pages(at, count * PAGE);
        if (madvise(at, count * PAGE, GUARD_INSTALL)) {
            if (errno == EINVAL) break;
            die_errno("MADV_GUARD_INSTALL");
        }
        if (madvise(at, count * PAGE, GUARD_REMOVE)) die_errno("MADV_GUARD_REMOVE");
        verify_zero_region(at, count * PAGE, "after a guard");
        fill_region(at, count * PAGE, first, 1);
    }
    verify_region(region, bytes, 0, 1, "after the guards");
    if (madvise(region, bytes, MADV_DONTNEED)) die_errno("MADV_DONTNEED");
    verify_zero_region(region, bytes, "whole region removed");
    insist_away(removed_away, "what MADV_DONTNEED removes");
    insist_away(freed_away, "what MADV_FREE frees");
    insist_away(guarded_away, "what becomes a guard");
    printf("OK %llu pages removed, %llu freed (%llu kept), %u guards\n", (unsigned long long)removed,
           (unsigned long long)freed, (unsigned long long)kept, guarded);
}

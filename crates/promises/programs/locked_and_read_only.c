/* Hazard: UFFDIO_MOVE refuses locked and read-only memory (EINVAL), and a program that locked
 * memory relies on never faulting there. One region is locked while fresh, one after parts of
 * it were evicted, one is only readable; all under pressure. Locked pages must be resident at
 * every look; contents must be right. Arguments: seed, milliseconds. */
#include "common.h"

enum { LOCKED = 2 << 20, READABLE = 8 << 20, COLD = 16 << 20 };

static void check_resident(char *region, size_t bytes, const char *which) {
    size_t absent = absent_pages(region, bytes);
    if (absent) die("%s: %zu of %zu locked pages at %p are not resident", which, absent, bytes / PAGE, region);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t deadline = now_ms() + argument(argc, argv, 2, 2500);
    char *early = map_region(LOCKED), *late = map_region(LOCKED);
    char *readable = map_region(READABLE), *cold = map_region(COLD);
    if (mlock(early, LOCKED)) skip("mlock is refused");
    fill_region(early, LOCKED, 0, 1);
    fill_region(late, LOCKED, 1000, 2);
    fill_region(readable, READABLE, 2000, 3);
    fill_region(cold, COLD, 9000, 4);
    mprotect(readable, READABLE / 2, PROT_READ); /* half while hot, half once parts are out */
    settle(late, LOCKED);
    settle(readable + READABLE / 2, READABLE / 2);
    mprotect(readable, READABLE, PROT_READ);
    if (mlock(late, LOCKED)) die_errno("mlock of memory that is partly out");
    check_resident(late, LOCKED, "locked late, at once");
    uint64_t looks = 0;
    while (now_ms() < deadline) {
        settle(cold, COLD);
        check_resident(early, LOCKED, "locked early");
        check_resident(late, LOCKED, "locked late");
        verify_region(cold, COLD, 9000, 4, "cold memory");
        looks++;
    }
    verify_region(early, LOCKED, 0, 1, "locked early");
    verify_region(late, LOCKED, 1000, 2, "locked late");
    verify_region(readable, READABLE, 2000, 3, "read-only");
    munlock(early, LOCKED), munlock(late, LOCKED);
    settle(early, LOCKED), settle(late, LOCKED); /* only the lock kept them */
    verify_region(early, LOCKED, 0, 1, "unlocked");
    verify_region(late, LOCKED, 1000, 2, "unlocked again");
    mprotect(readable, READABLE, PROT_READ | PROT_WRITE);
    verify_region(readable, READABLE, 2000, 3, "writable again");
    printf("OK %llu looks\n", (unsigned long long)looks);
}

/* Hazard: transparent huge pages. A page that is taken out may be a part of one, the kernel may put one
 * together while parts of it are away, and a fault that is answered with one page must not bring 512. Memory
 * that asks for huge pages is filled, evicted, collapsed, split by madvise and mprotect, and inherited.
 * Arguments: seed, MiB, milliseconds. */
#include "common.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static const size_t HUGE = 2 * MIB;

static void verify_all(const char *region, const uint64_t *versions, size_t huge, const char *when) {
    for (size_t h = 0; h < huge; h++) verify_region(region + h * HUGE, HUGE, h * 512, versions[h], when);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 16) * MIB, huge = bytes / HUGE;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000), state = seed, versions[64] = {0}, rounds = 0;
    if (huge == 0 || huge > 64) die("arguments");
    char *region = map_region(bytes + HUGE);
    region += -(uintptr_t)region % HUGE;
    if (madvise(region, bytes, MADV_HUGEPAGE)) skip("no transparent huge pages");
    fill_region(region, bytes, 0, 0);
    long at_first = huge_kib(), collapsed = 0, forks = 0;
    if (at_first <= 0) skip("the kernel gives no transparent huge pages");
    do {
        settle(region, bytes);
        size_t h = rng(&state) % huge;
        char *one = region + h * HUGE;
        switch (rng(&state) % 6) {
        case 0: /* while parts of it are away, and when all is in place */
            collapsed += madvise(one, HUGE, MADV_COLLAPSE) == 0;
            verify_region(one, HUGE, h * 512, versions[h], "before it is collapsed");
            collapsed += madvise(one, HUGE, MADV_COLLAPSE) == 0;
            break;
        case 1: /* given back and filled anew: with a huge page, if the kernel likes */
            if (madvise(one, HUGE, MADV_DONTNEED)) die_errno("MADV_DONTNEED");
            verify_zero(one + rng(&state) % 512 * PAGE, "given back");
            fill_region(one, HUGE, h * 512, ++versions[h]);
            break;
        case 2: /* split in the middle */
            if (madvise(one + HUGE / 2, PAGE, MADV_DONTNEED)) die_errno("MADV_DONTNEED");
            verify_zero(one + HUGE / 2, "a page given back");
            fill_page(one + HUGE / 2, h * 512 + 256, versions[h]);
            break;
        case 3:
            if (mprotect(one, HUGE / 2, PROT_READ) || mprotect(one, HUGE / 2, PROT_READ | PROT_WRITE)) die_errno("mprotect");
            fill_region(one, HUGE, h * 512, ++versions[h]);
            break;
        case 4: {
            pid_t pid = fork();
            if (pid == 0) {
                verify_all(region, versions, huge, "child");
                fill_region(one, HUGE, h * 512, versions[h] + 100);
                verify_region(one, HUGE, h * 512, versions[h] + 100, "child's own");
                _exit(0);
            }
            if (wait_exit(pid, "child")) die("a child failed");
            forks++;
            break;
        }
        default: fill_region(one, HUGE, h * 512, ++versions[h]);
        }
        verify_all(region, versions, huge, "huge pages");
        rounds++;
    } while (now_ms() < deadline);
    printf("OK %llu rounds, %ld KiB huge at first, %ld collapses, %ld forks\n", (unsigned long long)rounds, at_first,
           collapsed, forks);
}

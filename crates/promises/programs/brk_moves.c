/* Hazard: the heap shrinks and grows by brk, without mmap or munmap: what returns must be zero,
 * what stayed must be whole. Nothing else may use brk meanwhile: no malloc, no stdio buffer.
 * Arguments: seed, MiB, milliseconds. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 2500), state = seed, rounds = 0;
    char *base = (char *)(((uintptr_t)sbrk(0) + PAGE - 1) & -PAGE);
    if (brk(base + bytes)) die_errno("brk");
    verify_zero_region(base, bytes, "fresh heap");
    fill_region(base, bytes, 0, 1);
    for (; now_ms() < deadline; rounds++) {
        settle(base, bytes);
        size_t kept = rng(&state) % (bytes / PAGE) * PAGE;
        if (brk(base + kept)) die_errno("brk down");
        if (rng(&state) % 2) sleep_ms(5);
        if (brk(base + bytes)) die_errno("brk up");
        verify_zero_region(base + kept, bytes - kept, "heap grown again");
        verify_region(base, kept, 0, 1, "heap that stayed");
        fill_region(base + kept, bytes - kept, kept / PAGE, 1);
    }
    dprintf(1, "OK %llu rounds\n", (unsigned long long)rounds);
}

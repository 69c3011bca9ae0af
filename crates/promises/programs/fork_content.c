/* Hazard: a forked child silently reads zeros from every page that was compressed. Child and
 * grandchild read and verify the whole of a region larger than the budget, write their own
 * version of it, and the parent's copy stays as it was. One thread; several generations at once, and
 * some made by `_Fork`, which runs no hooks (glibc 2.34).
 * Arguments: seed, MiB, rounds. */
#include "common.h"

#pragma weak _Fork

static char *region;
static size_t bytes;

/* The child's life: verify the parent's version, write the own one, hand it to a grandchild. */
static int descend(int generation, uint64_t inherited) {
    verify_region(region, bytes, 0, inherited, generation == 1 ? "child" : "grandchild");
    uint64_t own = inherited * 10 + generation;
    size_t step = generation == 1 ? PAGE : 2 * PAGE; /* the grandchild leaves odd pages alone */
    for (size_t at = 0; at < bytes; at += step) fill_page(region + at, at / PAGE, own);
    if (generation == 1) {
        settle(region, bytes);
        pid_t grandchild = fork();
        if (grandchild < 0) die_errno("fork in the child");
        if (grandchild == 0) _exit(descend(generation + 1, own));
        verify_region(region, bytes, 0, own, "child beside its grandchild");
        if (wait_exit(grandchild, "grandchild")) return 1;
        verify_region(region, bytes, 0, own, "child after its grandchild");
    } else {
        for (size_t at = 0; at < bytes; at += PAGE)
            verify_page(region + at, at / PAGE, at / PAGE % 2 ? inherited : own, "grandchild's own version");
    }
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 24) * MIB;
    long rounds = argument(argc, argv, 3, 3);
    region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    for (long round = 1; round <= rounds; round++) {
        settle(region, bytes);
        pid_t first = fork();
        if (first == 0) _exit(descend(1, round));
        pid_t second = round % 2 && _Fork ? _Fork() : fork(); /* a sibling, while the first is at work */
        if (second == 0) _exit(descend(1, round));
        if (first < 0 || second < 0) die_errno("fork");
        verify_region(region, bytes, 0, round, "parent while its children write");
        if (wait_exit(first, "first child") || wait_exit(second, "second child")) return 1;
        verify_region(region, bytes, 0, round, "parent after its children");
        fill_region(region, bytes, 0, round + 1);
    }
    printf("OK %ld rounds, %zu MiB, 4 descendants each\n", rounds, bytes / MIB);
}

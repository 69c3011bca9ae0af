/* Hazard: a forked child of a program of which nothing is away has no pager yet, or never, but mappings that are split
 * where its parent's pager has registered memory. It moves and grows them, lets children of its own have them, and has a
 * child. Arguments: seed, MiB, rounds. */
#include "common.h"

static void use(char *region, size_t bytes, long round) {
    if (madvise(region, bytes, MADV_DOFORK)) die_errno("child: MADV_DOFORK");
    char *grown = mremap(region, bytes, 2 * bytes, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) die_errno("child: mremap");
    verify_region(grown, bytes, 0, round, "child: what was there");
    verify_zero_region(grown + bytes, bytes, "child: what has come");
    fill_region(grown + bytes, bytes, 5000, round);
    pid_t pid = fork();
    if (pid < 0) die_errno("fork");
    if (pid == 0) {
        verify_region(grown, bytes, 0, round, "grandchild: what was there");
        verify_region(grown + bytes, bytes, 5000, round, "grandchild: what has come");
        _exit(0);
    }
    _exit(wait_exit(pid, "grandchild"));
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 12) * MIB;
    long rounds = argument(argc, argv, 3, 6);
    char *region = map_region(bytes);
    for (long round = 0; round < rounds; round++) {
        fill_region(region, bytes, 0, round);
        settle_under(region, bytes, 24);
        verify_region(region, bytes, 0, round, "parent");
        size_t away = absent_pages(region, bytes);
        if (away) die("%zu pages are away although there is room: the hazard was not met", away);
        pid_t pid = fork();
        if (pid < 0) die_errno("fork");
        if (pid == 0) use(region, bytes, round);
        if (wait_exit(pid, "child")) return 1;
    }
    printf("OK %ld children\n", rounds);
}

/* Hazard: memory with a meaning of its own at fork is moved, in every other round so that its old place stays mapped
 * (MREMAP_DONTUNMAP): what was advised holds in both places. MADV_DONTFORK is absent from children, MADV_WIPEONFORK
 * reads zeros there. The first moves come before a pager that waits has started. Arguments: seed, rounds. */
#include "common.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { BYTES = 2 << 20 };

static int mapped(const char *at) {
    unsigned char present;
    return mincore((void *)at, PAGE, &present) == 0;
}

static void advise(char *gone, char *wiped) {
    if (madvise(gone, BYTES, MADV_DONTFORK) || madvise(wiped, BYTES, MADV_WIPEONFORK)) die_errno("madvise");
}

static char *moved(char *from, size_t bytes, int kept) {
    char *place = map_apart(bytes);
    int how = kept ? MREMAP_MAYMOVE | MREMAP_DONTUNMAP : MREMAP_MAYMOVE | MREMAP_FIXED;
    char *to = mremap(from, BYTES, bytes, how, place);
    if (to == MAP_FAILED) {
        if (errno == EINVAL) skip("MREMAP_DONTUNMAP");
        die_errno("mremap");
    }
    return to;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 4);
    char *plain = map_region(4 * BYTES);
    for (long round = 0; round < rounds; round++) {
        char *gone = map_region(BYTES), *wiped = map_region(BYTES);
        int kept = round % 2, late = round % 4 >= 2;
        if (!late) advise(gone, wiped);
        fill_region(gone, BYTES, 0, round);
        fill_region(wiped, BYTES, 10000, round);
        if (round % 3) settle(gone, BYTES);
        /* Given to memory of which some was taken. */
        if (late) settle(wiped, BYTES), advise(gone, wiped);
        size_t bytes = kept ? BYTES : 2 * BYTES; /* what has grown is advised, too */
        char *new_gone = moved(gone, bytes, kept), *new_wiped = moved(wiped, bytes, kept);
        fill_region(new_gone + BYTES, bytes - BYTES, 30000, round);
        fill_region(new_wiped + BYTES, bytes - BYTES, 40000, round);
        fill_region(plain, 4 * BYTES, 20000, round);
        settle(plain, 4 * BYTES);
        for (int fork_n = 0; fork_n < 2; fork_n++) {
            pid_t pid = fork();
            if (pid < 0) die_errno("fork");
            if (pid == 0) {
                if ((kept && mapped(gone)) || mapped(new_gone) || mapped(new_gone + bytes - PAGE)) die("child: the DONTFORK range is mapped");
                if (kept) verify_zero_region(wiped, BYTES, "child: old place of the WIPEONFORK range");
                verify_zero_region(new_wiped, bytes, "child: WIPEONFORK range");
                _exit(0);
            }
            if (wait_exit(pid, "child")) return 1;
        }
        verify_region(new_gone, BYTES, 0, round, "parent: DONTFORK range");
        verify_region(new_wiped, BYTES, 10000, round, "parent: WIPEONFORK range");
        verify_region(new_gone + BYTES, bytes - BYTES, 30000, round, "parent: grown DONTFORK range");
        verify_region(new_wiped + BYTES, bytes - BYTES, 40000, round, "parent: grown WIPEONFORK range");
        if (kept) verify_zero_region(gone, BYTES, "parent: old place of the DONTFORK range");
        /* What is to be wiped stays mapped: nothing is taken where it lay, and the next round could not settle there. */
        if ((kept && munmap(gone, BYTES)) || munmap(new_gone, bytes)) die_errno("munmap");
    }
    printf("OK %ld rounds\n", rounds);
}

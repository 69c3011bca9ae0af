/* Hazard: memory with a meaning of its own at fork is moved, and its old place stays mapped (MREMAP_DONTUNMAP): what was
 * advised holds in both places. MADV_DONTFORK is absent from children, MADV_WIPEONFORK reads zeros there.
 * Arguments: seed, rounds. */
#include "common.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { BYTES = 2 << 20 };

static int mapped(const char *at) {
    unsigned char present;
    return mincore((void *)at, PAGE, &present) == 0;
}

static char *moved(char *from) {
    char *to = mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
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
        if (madvise(gone, BYTES, MADV_DONTFORK) || madvise(wiped, BYTES, MADV_WIPEONFORK)) die_errno("madvise");
        fill_region(gone, BYTES, 0, round);
        fill_region(wiped, BYTES, 10000, round);
        if (round % 2) settle(gone, BYTES);
        char *new_gone = moved(gone), *new_wiped = moved(wiped);
        fill_region(plain, 4 * BYTES, 20000, round);
        settle(plain, 4 * BYTES);
        for (int fork_n = 0; fork_n < 2; fork_n++) {
            pid_t pid = fork();
            if (pid < 0) die_errno("fork");
            if (pid == 0) {
                if (mapped(gone) || mapped(new_gone)) die("child: the DONTFORK range is mapped");
                verify_zero_region(wiped, BYTES, "child: old place of the WIPEONFORK range");
                verify_zero_region(new_wiped, BYTES, "child: WIPEONFORK range");
                _exit(0);
            }
            if (wait_exit(pid, "child")) return 1;
        }
        verify_region(new_gone, BYTES, 0, round, "parent: DONTFORK range");
        verify_region(new_wiped, BYTES, 10000, round, "parent: WIPEONFORK range");
        verify_zero_region(gone, BYTES, "parent: old place of the DONTFORK range");
        if (munmap(gone, BYTES) || munmap(wiped, BYTES) || munmap(new_gone, BYTES) || munmap(new_wiped, BYTES))
            die_errno("munmap");
    }
    printf("OK %ld rounds\n", rounds);
}

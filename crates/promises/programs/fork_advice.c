/* Hazard: ranges with their own meaning at fork. MADV_DONTFORK is absent from the child;
 * MADV_WIPEONFORK reads zeros there; both keep their content in the parent; taken back
 * (DOFORK, KEEPONFORK) the child has the content again. The advice comes before and after parts
 * of the range were compressed. Arguments: seed, rounds. */
#include "common.h"

enum { BYTES = 8 << 20 };

static int mapped(const char *at) {
    unsigned char present;
    return mincore((void *)at, PAGE, &present) == 0;
}

static int child(const char *gone, const char *wiped, const char *plain, int advised, uint64_t version) {
    if (advised) {
        if (mapped(gone) || mapped(gone + BYTES / 2)) die("child: the DONTFORK range is mapped");
        verify_zero_region(wiped, BYTES, "child: WIPEONFORK range");
        fill_region((char *)wiped, BYTES, 7, version + 50);
        verify_region(wiped, BYTES, 7, version + 50, "child: own bytes in the wiped range");
    } else {
        verify_region(gone, BYTES, 0, version, "child: DOFORK range");
        verify_region(wiped, BYTES, 10000, version, "child: KEEPONFORK range");
    }
    verify_region(plain, BYTES, 20000, version, "child: plain range");
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 6);
    char *gone = map_region(BYTES), *wiped = map_region(BYTES), *plain = map_region(BYTES);
    for (long round = 0; round < rounds; round++) {
        int advised = round % 3 != 2, late = round % 2;
        if (!late && (madvise(gone, BYTES, advised ? MADV_DONTFORK : MADV_DOFORK) ||
                      madvise(wiped, BYTES, advised ? MADV_WIPEONFORK : MADV_KEEPONFORK)))
            die_errno("madvise");
        fill_region(gone, BYTES, 0, round);
        fill_region(wiped, BYTES, 10000, round);
        fill_region(plain, BYTES, 20000, round);
        settle(plain, BYTES);
        settle(gone, BYTES);
        /* What is wiped in children stays in place; what they find again may be taken again. In round 3 the advice is
         * given late to memory that is taken: it was taken back in round 2. */
        if ((!advised && !late) || round % 6 == 3) settle(wiped, BYTES);
        if (late && (madvise(gone, BYTES, advised ? MADV_DONTFORK : MADV_DOFORK) ||
                     madvise(wiped, BYTES, advised ? MADV_WIPEONFORK : MADV_KEEPONFORK)))
            die_errno("madvise");
        pid_t pid = fork();
        if (pid == 0) _exit(child(gone, wiped, plain, advised, round));
        if (wait_exit(pid, "child")) return 1;
        verify_region(gone, BYTES, 0, round, "parent: DONTFORK range");
        verify_region(wiped, BYTES, 10000, round, "parent: WIPEONFORK range");
        verify_region(plain, BYTES, 20000, round, "parent: plain range");
    }
    printf("OK %ld rounds\n", rounds);
}

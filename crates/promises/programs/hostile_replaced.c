/* A segment of shared memory takes the place of cold pages (SHM_REMAP), of which the kernel tells no userfaultfd.
 * It goes again, and fresh memory is mapped there: that reads zeros, and keeps what is written. Arguments: seed, how:
 *   call    shmat
 *   number  syscall(SYS_shmat, …) */
#include "common.h"
#include <sys/shm.h>

enum { PAGES = 8192, FIRST = 2048, COUNT = 4096, ROUNDS = 3 };
static char *region;

static void *attach(int by_number, int segment, void *at) {
    if (!by_number) return shmat(segment, at, SHM_REMAP);
    return (void *)syscall(SYS_shmat, segment, at, SHM_REMAP);
}

/* Every eighth page is written, so that the pager takes it out and registers its neighbours. */
static void fresh(char *place, uint64_t version) {
    if (mmap(place, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place)
        die_errno("mmap");
    for (size_t n = 0; n < COUNT; n += 8) fill_page(place + n * PAGE, FIRST + n, version);
    for (unsigned round = 0; managed() && round < 5; round++) sleep_ms(100);
    for (size_t n = 0; n < COUNT; n++) {
        char *page = place + n * PAGE;
        if (n % 8 == 0) verify_page(page, FIRST + n, version, "written behind the segment");
        else if (!is_zero(page)) die("page %zu holds what was there before the segment", n);
    }
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    int by_number = argc > 2 && !strcmp(argv[2], "number");
    region = map_apart(PAGES * PAGE);
    char *place = region + FIRST * PAGE;
    fill_region(region, PAGES * PAGE, 0, 1);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        settle(region, PAGES * PAGE);
        int segment = shmget(IPC_PRIVATE, COUNT * PAGE, IPC_CREAT | 0600);
        if (segment < 0) skip("shmget");
        char *there = attach(by_number, segment, place);
        int error = errno;
        shmctl(segment, IPC_RMID, 0);
        errno = error;
        if (there != place) die_errno("shmat");
        for (size_t n = 0; n < COUNT; n++)
            if (!is_zero(there + n * PAGE)) die("page %zu of the segment is not zero", n);
        fill_region(there, COUNT * PAGE, 0, 100 + round);
        sleep_ms(50);
        verify_region(there, COUNT * PAGE, 0, 100 + round, "in the segment");
        if (shmdt(there)) die_errno("shmdt");
        fresh(place, 200 + round);
        fill_region(place, COUNT * PAGE, FIRST, 1);
        verify_region(region, PAGES * PAGE, 0, 1, "at the end of a round");
    }
    printf("OK %d rounds\n", ROUNDS);
}

/* Hazard: a process is forked while another of its threads moves memory. Registered memory is kept from children but
 * between the hooks of a fork, and what is moved takes that mark along: to a place where the pager has already looked
 * for it. Arguments: seed, MiB, forks. */
#include "common.h"

/* Mappings between the places, which take their time to be gone through. */
enum { BETWEEN = 4000 };

static size_t bytes;
static char *places[2];
static _Atomic int done;

/* Where it is: a move takes place at once. */
static char *place(void) {
    unsigned char resident;
    for (int n = 0; n < 2; n++)
        if (!mincore(places[n], 4096, &resident)) return places[n];
    die("the memory is nowhere");
}

static void *moves(void *context) {
    (void)context;
    for (int to = 1; !done; to = !to) {
        if (mremap(places[!to], bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, places[to]) == MAP_FAILED) die_errno("mremap");
        usleep(300);
    }
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 1) * MIB;
    long forks = argument(argc, argv, 3, 300);
    size_t between = BETWEEN * 4096ul;
    /* Where the kernel puts nothing of its own accord. */
    char *all = mmap((void *)(1ul << 40), 2 * bytes + between, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (all == MAP_FAILED) die_errno("mmap");
    for (size_t page = 0; page < BETWEEN; page += 2)
        if (mprotect(all + bytes + page * 4096, 4096, PROT_READ)) die_errno("mprotect");
    places[0] = all + bytes + between;
    places[1] = all;
    if (munmap(places[1], bytes)) die_errno("munmap");
    if (mprotect(places[0], bytes, PROT_READ | PROT_WRITE)) die_errno("mprotect");
    fill_region(places[0], bytes, 0, 1);
    settle(places[0], bytes);
    pthread_t thread = start_thread(moves, NULL);
    for (long n = 0; n < forks; n++) {
        pid_t pid = fork();
        if (pid < 0) die_errno("fork");
        if (pid == 0) {
            verify_region(place(), bytes, 0, 1, "child");
            _exit(0);
        }
        if (wait_exit(pid, "child")) die("fork %ld: the child ended with a status that is not its own", n);
    }
    done = 1;
    join_thread(thread);
    verify_region(place(), bytes, 0, 1, "parent");
    printf("OK %ld forks\n", forks);
}

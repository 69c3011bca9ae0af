/* Hazard: while one thread forks another unmaps memory, maps new memory there and says that it cannot wait for it. What
 * the kernel tells of the unmapping is acted on when the fork is over: the advice is younger. Arguments: seed, rounds. */
#include "common.h"
#include "../../preload/include/coldpress.h"

/* Mappings that a fork has to go through: so it takes its time. */
enum { PLACES = 64, MAPPINGS = 4000 };
static const size_t BYTES = 16 * PAGE;

static char *all;
static _Atomic unsigned made;
static _Atomic int forking, resting, done;

static void *forks(void *context) {
    (void)context;
    while (!done) {
        resting = !forking;
        if (resting) {
            usleep(100);
            continue;
        }
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (!child) _exit(0);
        if (wait_exit(child, "child")) die("a child's status is not its own");
        made++;
    }
    return NULL;
}

static void advise(char *place, int advice) {
    if (coldpress_advise_if_managed(place, BYTES, advice)) die_errno("coldpress_advise");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned rounds = argument(argc, argv, 2, 8);
    char *many = mmap(NULL, MAPPINGS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (many == MAP_FAILED) die_errno("mmap");
    for (size_t page = 0; page < MAPPINGS; page += 2)
        if (mprotect(many + page * PAGE, PAGE, PROT_READ)) die_errno("mprotect");
    all = map_region(PLACES * BYTES);
    pthread_t thread = start_thread(forks, NULL);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned n = 0; n < PLACES; n++) advise(all + n * BYTES, COLDPRESS_NORMAL);
        fill_region(all, PLACES * BYTES, 0, round);
        settle(all, PLACES * BYTES);
        forking = 1;
        for (unsigned before = made; made == before;) usleep(100);
        for (unsigned n = 0; n < PLACES; n++) {
            char *place = all + n * BYTES;
            if (munmap(place, BYTES)) die_errno("munmap");
            if (mmap(place, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place)
                die_errno("mmap");
            advise(place, COLDPRESS_LATENCY_SENSITIVE);
        }
        /* What a child has had cannot be taken before it is written to again. */
        forking = 0;
        while (!resting) usleep(100);
        for (unsigned n = 0; n < PLACES; n++) fill_region(all + n * BYTES, BYTES, n, round + 1000);
        char *other = map_region(4 * MIB);
        fill_region(other, 4 * MIB, 0, round);
        settle(other, 4 * MIB);
        munmap(other, 4 * MIB);
        for (unsigned n = 0; n < PLACES; n++) {
            size_t away = absent_pages(all + n * BYTES, BYTES);
            if (away) die("round %u, place %u (%p): %zu pages are away, although the program cannot wait for them", round, n, all + n * BYTES, away);
            verify_region(all + n * BYTES, BYTES, n, round + 1000, "at last");
        }
    }
    done = 1;
    join_thread(thread);
    printf("OK %u rounds, %u forks\n", rounds, made);
}

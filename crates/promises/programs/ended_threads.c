/* Control blocks of threads that have ended. Libc keeps the stacks of such threads and links them in the child of a
 * fork before any hook, so they must be in place at any time, from the moment when pthread_create has returned: also
 * where the pager was just about to take them, has taken them of a thread that ended before that, or was reading the
 * mappings and did not have them yet. A quarter of the threads is made by thrd_create. mincore tells. The stacks of
 * each round are a page larger than those before, so that none of those that are looked at is used again. Children
 * that compute make the pager's threads lose their processor at any point. Arguments: seed, rounds, children. */
#include "common.h"
#include <threads.h>

enum { THREADS = 8, KEPT = 12 };

static void *end_at_once(void *unused) { return unused; }

static int end_at_once_c11(void *unused) { return unused != NULL; }

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned rounds = (unsigned)argument(argc, argv, 2, 500), children = (unsigned)argument(argc, argv, 3, 4);
    pid_t busy[16];
    for (unsigned n = 0; n < children && n < 16; n++) {
        busy[n] = fork();
        if (busy[n] < 0) die_errno("fork");
        if (busy[n] == 0) {
            uint64_t parent = (uint64_t)getppid(), count = 0;
            for (uint64_t state = n;; count += rng(&state) & 1)
                if ((uint64_t)getppid() != parent) _exit((int)count & 1);
        }
    }
    unsigned looked_at = 0, away = 0;
    /* Of the size of a stack, and not one: it is taken. */
    size_t other = 64 * PAGE, other_away = 0;
    char *control = map_apart(other);
    fill_region(control, other, 0, 1);
    for (unsigned round = 0; round < rounds; round++) {
        static pthread_t all[KEPT][THREADS];
        pthread_t *threads = all[round % KEPT];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (pthread_attr_setstacksize(&attributes, (36 + round % 60) * PAGE)) die("stack size");
        if (pthread_setattr_default_np(&attributes)) die("default stack size");
        for (unsigned n = 0; n < THREADS; n++) {
            pthread_attr_setdetachstate(&attributes, n % 2 ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
            if (n % 4 == 2) {
                if (thrd_create(&threads[n], end_at_once_c11, NULL) != thrd_success) die("thrd_create");
            } else if (pthread_create(&threads[n], &attributes, end_at_once, NULL)) die_errno("pthread_create");
        }
        for (unsigned n = 0; n < THREADS; n += 2)
            if (n % 4 == 2) thrd_join(threads[n], NULL);
            else pthread_join(threads[n], NULL);
        pthread_attr_destroy(&attributes);
        sleep_ms(1 + rng(&seed) % 4);
        other_away += absent_pages(control, other);
        for (unsigned n = 0; n < THREADS * (round < KEPT ? round + 1 : KEPT); n++) {
            unsigned char in_place = 1;
            /* Where libc has given the stack back, it is no longer mapped. */
            if (mincore((void *)((uintptr_t)all[n / THREADS][n % THREADS] & ~(PAGE - 1)), PAGE, &in_place)) continue;
            looked_at++;
            away += !(in_place & 1);
        }
    }
    for (unsigned n = 0; n < children && n < 16; n++) {
        kill(busy[n], SIGKILL);
        waitpid(busy[n], NULL, 0);
    }
    if (looked_at < rounds) die("only %u stacks were still there", looked_at);
    if (away) die("%u of %u control blocks of ended threads were away", away, looked_at);
    insist_away(other_away, "memory that is no stack");
    printf("OK %u control blocks in place\n", looked_at);
    return 0;
}

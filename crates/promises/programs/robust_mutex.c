/* Hazard: when a thread dies, the kernel walks its robust list and marks the mutexes in user
 * memory: it does not wait for a compressed page, so the mark would be lost there and behind it on
 * the list, and the next owner waits for ever. The mutexes lie alone on heap pages that grow cold
 * while they are held, and in shared memory for a killed child, which holds some of the others, too.
 * Arguments: seed, rounds. */
#include "common.h"

enum { MUTEXES = 128, PAGES = MUTEXES / 2, CONTROL = 64 };
static const size_t MAPPED = (PAGES + CONTROL) * PAGE;
static pthread_mutex_t *mutexes[MUTEXES];
static char *apart[2]; /* a mutex a page, and behind them other pages, which are taken */
static char *cold;
static const size_t BYTES = 16 << 20;
static _Atomic int may_die;

static void make(pthread_mutex_t *mutex, int shared) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (shared) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &attributes);
}

/* Waits until nearly all that may be taken is away, beside the mutexes, too. */
static void grow_cold(void) {
    settle(cold, BYTES);
    if (managed()) press_out(cold, BYTES, 9 * (BYTES / PAGE) / 10, 2000, 0);
    for (int i = 0; i < 2; i++) settle(apart[i] + PAGES * PAGE, CONTROL * PAGE);
}

/* Locks its share and dies without unlocking, after lying idle while pages are taken. */
static void *die_holding(void *context) {
    for (unsigned i = (uintptr_t)context; i < MUTEXES; i += 4) pthread_mutex_lock(mutexes[i]);
    while (!may_die) sleep_ms(1);
    return NULL;
}

static void inherit(pthread_mutex_t *mutex, const char *from) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    int e = pthread_mutex_timedlock(mutex, &until);
    if (e != EOWNERDEAD) die("mutex %p of a dead %s: expected EOWNERDEAD, got %s", (void *)mutex, from, strerror(e));
    pthread_mutex_consistent(mutex);
    pthread_mutex_unlock(mutex);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 6);
    for (int i = 0; i < 2; i++) {
        apart[i] = map_apart(MAPPED);
        fill_region(apart[i], MAPPED, 1u << 20, i);
    }
    for (unsigned i = 0; i < MUTEXES; i++) make((void *)(apart[i % 2] + i / 2 * PAGE), 0);
    /* Half of them move before they are used. */
    char *place = map_apart(MAPPED);
    if (mremap(apart[1], MAPPED, MAPPED, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place) die_errno("mremap");
    apart[1] = place;
    for (unsigned i = 0; i < MUTEXES; i++) mutexes[i] = (void *)(apart[i % 2] + i / 2 * PAGE);
    pthread_mutex_t *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make(shared, 1);
    cold = map_region(BYTES);
    fill_region(cold, BYTES, 0, 1);
    for (long round = 0; round < rounds; round++) {
        pthread_t threads[4];
        may_die = 0;
        for (uintptr_t i = 0; i < 4; i++) threads[i] = start_thread(die_holding, (void *)i);
        grow_cold();
        may_die = 1;
        for (unsigned i = 0; i < 4; i++) join_thread(threads[i]);
        for (unsigned i = 0; i < MUTEXES; i++) inherit(mutexes[i], "thread");
        pid_t pid = fork();
        if (pid == 0) {
            verify_region(cold, BYTES, 0, 1, "child");
            /* What is inherited in place is taken once it is written. */
            for (int i = 0; i < 2; i++) fill_region(apart[i] + PAGES * PAGE, CONTROL * PAGE, 1u << 20, i);
            /* The kernel begins with the mutex that was locked last. */
            pthread_mutex_lock(shared);
            for (unsigned i = 0; i < MUTEXES; i++) pthread_mutex_lock(mutexes[i]);
            grow_cold();
            raise(SIGKILL);
        }
        int status;
        waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) die("child: status %#x", status);
        inherit(shared, "child");
        verify_region(cold, BYTES, 0, 1, "parent");
    }
    printf("OK %ld rounds of %d mutexes\n", rounds, MUTEXES);
}

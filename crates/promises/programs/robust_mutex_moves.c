/* Hazard: memory that holds robust mutexes is moved, again and again, while its neighbours are taken and given back. The
 * kernel waits for no page when a thread dies that holds one, so each page with a mutex must be in place when the
 * move returns, and stay. The first moves come before a pager that waits has started. Arguments: seed, rounds. */
#include "common.h"

enum { MUTEXES = 48, PLACES = 3, COLD = 8 << 20 };
static const size_t BYTES = 64 * PAGE;

/* Some pages between them hold none, and may be taken. */
static pthread_mutex_t *mutex_of(char *place, int n) { return (void *)(place + (n + n / 3) * PAGE); }

static void insist_in_place(char *place, long round, const char *when) {
    for (int n = 0; n < MUTEXES; n++)
        if (absent_pages(mutex_of(place, n), PAGE)) die("round %ld, mutex %d: its page is away %s", round, n, when);
}

static void *die_holding(void *place) {
    for (int n = 0; n < MUTEXES; n++) pthread_mutex_lock(mutex_of(place, n));
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 300);
    char *places[PLACES];
    for (int i = 0; i < PLACES; i++) places[i] = map_apart(BYTES);
    fill_region(places[0], BYTES, 1u << 20, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (int n = 0; n < MUTEXES; n++) pthread_mutex_init(mutex_of(places[0], n), &attributes);
    char *cold = map_region(COLD);
    for (long round = 0; round < rounds; round++) {
        char *from = places[round % PLACES], *to = places[(round + 1) % PLACES];
        if (mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) die_errno("mremap");
        insist_in_place(to, round, "when the move returns");
        if (round % 50 == 1) {
            fill_region(cold, COLD, 0, round);
            settle(cold, COLD);
            verify_region(cold, COLD, 0, round, "beside the mutexes");
        } else {
            sleep_ms(1);
        }
        insist_in_place(to, round, "after the move");
        if (round % 10 == 0) {
            join_thread(start_thread(die_holding, to));
            for (int n = 0; n < MUTEXES; n++) {
                int e = pthread_mutex_trylock(mutex_of(to, n));
                if (e != EOWNERDEAD) die("round %ld, mutex %d of a dead thread: expected EOWNERDEAD, got %s", round, n, strerror(e));
                pthread_mutex_consistent(mutex_of(to, n));
                pthread_mutex_unlock(mutex_of(to, n));
            }
        }
        /* What was moved away from is memory again: of nobody, and then of the next round. */
        if (mmap(from, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != from) die_errno("mmap");
    }
    printf("OK %ld moves of %d mutexes\n", rounds, MUTEXES);
}

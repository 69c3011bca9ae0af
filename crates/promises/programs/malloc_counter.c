/* Hazard: a pager that calls the program's malloc on the fault path waits for the lock that the
 * faulting thread holds. This program is the malloc: its definitions come before libc's for
 * every library, and count calls from threads it did not start. Its own heap is cold memory.
 * Arguments: seed, milliseconds. */
#include "common.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static __thread int mine __attribute__((tls_model("initial-exec")));
static pid_t main_thread;
static _Atomic uint64_t own_calls, foreign_calls;

static void count(void) {
    if (mine || syscall(SYS_gettid) == main_thread || !main_thread) own_calls++;
    else foreign_calls++;
}

void *malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void *realloc(void *p, size_t bytes) { return count(), __libc_realloc(p, bytes); }
void free(void *p) { count(), __libc_free(p); }
void *memalign(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **p, size_t alignment, size_t bytes) { return (*p = memalign(alignment, bytes)) ? 0 : ENOMEM; }

static uint64_t deadline;

static void *allocate(void *context) {
    mine = 1;
    enum { SLOTS = 2000 };
    uint64_t state = seed + (uintptr_t)context;
    uint64_t **slots = calloc(SLOTS, sizeof *slots);
    while (now_ms() < deadline) {
        unsigned i = rng(&state) % SLOTS;
        if (slots[i]) {
            uint64_t words = slots[i][0], version = slots[i][1];
            for (uint64_t w = 2; w < words; w++)
                if (slots[i][w] != word_of(i, version, w)) die("chunk %u at %p word %llu is wrong", i, (void *)slots[i], (unsigned long long)w);
            free(slots[i]);
        }
        uint64_t words = 8 + rng(&state) % 1500, version = rng(&state);
        slots[i] = malloc(words * 8);
        slots[i][0] = words;
        slots[i][1] = version;
        for (uint64_t w = 2; w < words; w++) slots[i][w] = word_of(i, version, w);
    }
    return NULL;
}

int main(int argc, char **argv) {
    mine = 1;
    main_thread = syscall(SYS_gettid);
    seed = argument(argc, argv, 1, 1);
    deadline = now_ms() + argument(argc, argv, 2, 3000);
    size_t bytes = 16 * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++) threads[i] = start_thread(allocate, (void *)i);
    while (now_ms() < deadline) {
        settle(region, bytes);
        verify_region(region, bytes, 0, 1, "region");
    }
    for (unsigned i = 0; i < 3; i++) join_thread(threads[i]);
    if (foreign_calls) die("%llu calls of malloc from the pager's threads", (unsigned long long)foreign_calls);
    dprintf(1, "OK %llu calls of the program, none of the pager\n", (unsigned long long)own_calls);
}

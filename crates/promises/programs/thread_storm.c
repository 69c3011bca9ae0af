/* Hazard: CLEARTID on a compressed page at thread exit: the kernel's store is lost and a join
 * hangs; a cold rseq area or TCB on a stack is as bad. Threads are created and joined by the
 * thousand, on stacks of glibc's or on the program's own heap memory, which looks like any
 * other memory to a pager; each works on cold data and its thread-local variables.
 * Arguments: seed, threads to create, 1 for stacks on the heap. */
#include "common.h"

enum { AT_ONCE = 16 };
static const size_t STACK = 64 * 1024;
static char *region;
static const size_t BYTES = 16 << 20;
static __thread uint64_t local[64];

static void *work(void *context) {
    uint64_t me = (uintptr_t)context, state = seed + me;
    for (unsigned i = 0; i < 64; i++) {
        if (local[i]) die("thread %llu: thread-local word %u at %p: expected 0, found %#llx", (unsigned long long)me, i,
                          (void *)&local[i], (unsigned long long)local[i]);
        local[i] = me + i;
    }
    for (unsigned k = 0; k < 2; k++) {
        size_t i = rng(&state) % (BYTES / PAGE);
        verify_page(region + i * PAGE, i, 1, "thread");
    }
    if (me % 8 == 0) sched_yield();
    if (me % 512 == 0) sleep_ms(20); /* lies idle while its stack might be taken */
    for (unsigned i = 0; i < 64; i++)
        if (local[i] != me + i) die("thread %llu: its thread-local words changed", (unsigned long long)me);
    return (void *)(me * 3 + 1);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned long total = argument(argc, argv, 2, 10000), done = 0;
    int own_stacks = argument(argc, argv, 3, 0);
    region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    settle(region, BYTES);
    char *stacks[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++)
        if (posix_memalign((void **)&stacks[i], PAGE, STACK)) die("posix_memalign");
    while (done < total) {
        pthread_t threads[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++) {
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            if (own_stacks && pthread_attr_setstack(&attributes, stacks[i], STACK)) die("pthread_attr_setstack");
            int e = pthread_create(&threads[i], &attributes, work, (void *)(uintptr_t)(done + i));
            if (e) die("pthread_create: %s", strerror(e));
            pthread_attr_destroy(&attributes);
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            void *result;
            if (pthread_join(threads[i], &result)) die("pthread_join");
            if (result != (void *)(uintptr_t)((done + i) * 3 + 1)) die("thread %lu: result %p", done + i, result);
        }
        done += AT_ONCE;
    }
    verify_region(region, BYTES, 0, 1, "at the end");
    printf("OK %lu threads on %s stacks\n", done, own_stacks ? "their own" : "glibc's");
}

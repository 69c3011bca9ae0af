/* More threads than the pager can leave alone, each with a little on the heap.
 * Arguments: seed, threads. */
#include "common.h"
#include <pthread.h>

enum { PAGES = 8192, STACK_BYTES = 65536, HELD = 64 };

static pthread_barrier_t all_are_there;

static void *hold(void *unused) {
    (void)unused;
    char *held = malloc(HELD);
    memset(held, 7, HELD);
    pthread_barrier_wait(&all_are_there);
    for (int n = 0; n < HELD; n++)
        if (held[n] != 7) die("a thread's own byte is %d", held[n]);
    free(held);
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    int threads = (int)argument(argc, argv, 2, 10000);
    char *region = map_apart(PAGES * PAGE);
    fill_region(region, PAGES * PAGE, 0, 1);
    sleep_ms(300);
    pthread_t *all = calloc(threads, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_barrier_init(&all_are_there, 0, threads + 1);
    for (int n = 0; n < threads; n++)
        if (pthread_create(&all[n], &small, hold, 0)) skip("a limit of threads");
    verify_region(region, PAGES * PAGE, 0, 1, "with all threads");
    pthread_barrier_wait(&all_are_there);
    for (int n = 0; n < threads; n++) pthread_join(all[n], 0);
    verify_region(region, PAGES * PAGE, 0, 1, "after all threads");
    printf("OK %d threads\n", threads);
    return 0;
}

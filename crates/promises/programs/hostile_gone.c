/* Hostile: threads that have gone, and what lies in their place. Arguments: seed, and
 *   stacks  many threads at a time, whose stacks libc keeps or gives back; then memory comes to lie there;
 *   signals more threads than the pager remembers, one after the other, each with an alternate stack that it frees without saying so;
 *   main    the first thread leaves by pthread_exit, and the others go on. */
#include "common.h"

enum { THREADS = 64, FREED = 9000 };
static pthread_barrier_t barrier;
static const char *how;

static void *stay_for_a_while(void *unused) {
    char used[64 << 10];
    memset(used, 1, sizeof used);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *take_signals(void *place) {
    stack_t stack = {.ss_sp = place, .ss_size = 16 << 10};
    if (sigaltstack(&stack, NULL)) die_errno("sigaltstack");
    return NULL;
}

/* Half of a region can go, and come back; in a child, too. */
static void compress_well(size_t bytes) {
    char *region = map_apart(bytes);
    fill_region(region, bytes, 0, 1);
    size_t absent = managed() ? press_out(region, bytes, bytes / PAGE / 2, 15000, 8) : bytes / PAGE;
    if (absent < bytes / PAGE / 2) die("%s: only %zu of %zu pages went", how, absent, bytes / PAGE);
    verify_region(region, bytes, 0, 1, how);
    settle(region, bytes);
    pid_t pid = fork();
    if (pid < 0) die_errno("fork");
    if (pid == 0) {
        verify_region(region, bytes, 0, 1, "child");
        settle(region, bytes);
        verify_region(region, bytes, 0, 1, "child, again");
        _exit(0);
    }
    if (wait_exit(pid, "child")) die("a child failed");
    verify_region(region, bytes, 0, 1, how);
    printf("OK %zu pages away\n", absent);
    fflush(stdout);
}

static void *go_on(void *unused) {
    sleep_ms(50);
    compress_well(32 * MIB);
    _exit(0);
    return unused;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    how = argc > 2 ? argv[2] : "stacks";
    char *other = map_apart(16 * MIB);
    fill_region(other, 16 * MIB, 1 << 20, 1);
    settle(other, 16 * MIB);
    if (!strcmp(how, "main")) {
        start_thread(go_on, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "stacks")) {
        static pthread_t threads[THREADS];
        pthread_barrier_init(&barrier, NULL, THREADS + 1);
        for (int i = 0; i < THREADS; i++) threads[i] = start_thread(stay_for_a_while, NULL);
        pthread_barrier_wait(&barrier);
        verify_region(other, 16 * MIB, 1 << 20, 1, "among threads");
        settle(other, 16 * MIB);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
        compress_well(128 * MIB);
    } else {
        char *stacks = map_apart(FREED * (16 << 10));
        for (int i = 0; i < FREED; i++) join_thread(start_thread(take_signals, stacks + i * (16 << 10)));
        compress_well(32 * MIB);
    }
    verify_region(other, 16 * MIB, 1 << 20, 1, "what was there before");
}

/* Hazard: signal handlers around a fork. In the child a handler may run before the hook that
 * rebuilds the pager; in the parent one may touch compressed memory while handlers of faults
 * hold still. Both must find their bytes, and nobody may hang. At the end the child of a program
 * whose first threads were short-lived makes threads: libc links their cached stacks in the child
 * before any hook, so these must be in place. Arguments: seed, MiB, forks. */
#include "common.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static char *region;
static size_t pages;
static volatile sig_atomic_t told, wrong;
static volatile unsigned walk = 1;
static _Atomic size_t *away; /* pages that were away when a handler touched them: in the parent, in children */
static pid_t parent;

static void look(int number) {
    for (unsigned k = 0; k < 16; k++) {
        walk = walk * 1103515245 + 12345;
        size_t page = (walk >> 8) % pages;
        away[getpid() != parent] += absent_pages(region + page * PAGE, PAGE);
        if (*(volatile char *)(region + page * PAGE + 100) != (char)(1 + page % 250)) wrong = 1;
    }
    if (number == SIGUSR1) told = 1;
}

static void *end_at_once(void *unused) { return unused; }

static void *stay(void *unused) {
    pause();
    return unused;
}

static void *end_soon(void *unused) {
    sleep_ms(50);
    return unused;
}

static void join_threads(unsigned count, void *(*run)(void *)) {
    pthread_t threads[8];
    for (unsigned n = 0; n < count; n++)
        if (pthread_create(&threads[n], NULL, run, NULL)) die_errno("pthread_create");
    for (unsigned n = 0; n < count; n++) pthread_join(threads[n], NULL);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 32) << 20;
    unsigned forks = argument(argc, argv, 3, 40);
    pthread_t stays;
    parent = getpid();
    join_threads(4, end_at_once);
    if (pthread_create(&stays, NULL, stay, NULL)) die_errno("pthread_create");
    pages = bytes / PAGE;
    region = map_region(bytes);
    for (size_t page = 0; page < pages; page++) memset(region + page * PAGE, 1 + page % 250, 2000);
    away = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (away == MAP_FAILED) die_errno("mmap");
    settle(region, bytes);
    signal(SIGUSR1, look);
    signal(SIGALRM, look);
    struct itimerval every = {{0, 3000}, {0, 3000}};
    for (unsigned n = 0; n < forks; n++) {
        setitimer(ITIMER_REAL, &every, NULL);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            while (!told) usleep(100);
            for (size_t page = 0; page < pages; page++)
                if (region[page * PAGE + 100] != (char)(1 + page % 250)) wrong = 1;
            if (n == 0) join_threads(4, end_soon);
            _exit(wrong);
        }
        kill(child, SIGUSR1);
        int status;
        while (waitpid(child, &status, 0) < 0) {}
        if (status != 0) die("child %u: status %#x (0x100: wrong bytes)", n, status);
        if (wrong) die("a signal handler found wrong bytes");
    }
    insist_away(away[0], "what a handler of the parent touches");
    insist_away(away[1], "what a handler of a child touches");
    printf("OK %u forks, handlers met %zu and %zu pages away\n", forks, away[0], away[1]);
    _exit(fflush(stdout));
}

/* What a program of another C library does of what the preload library stands in for there: threads, memory, mutexes,
 * signal stacks, fork. Prints `OK`, the seed and what it has of the environment; with arguments it then becomes the
 * program that they name. Compiled for musl, so nothing of common.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#define MIB (1 << 20)

static void check(int holds, const char *what) {
    if (holds) return;
    printf("WRONG: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *body(void *context) { return context; }

static int mark;

static int c11_body(void *context) { return context == &mark; }

int main(int argc, char **argv) {
    pthread_t thread;
    void *result = NULL;
    check(!pthread_create(&thread, NULL, body, argv), "pthread_create");
    check(!pthread_join(thread, &result) && result == argv, "pthread_join");
    thrd_t other;
    int status = 0;
    check(thrd_create(&other, c11_body, &mark) == thrd_success, "thrd_create");
    check(thrd_join(other, &status) == thrd_success && status, "thrd_join");

    char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    memset(memory, 7, MIB);
    check(!madvise(memory, MIB, MADV_DONTNEED) && memory[9] == 0, "madvise");
    errno = 0;
    check(madvise((void *)1, 4096, MADV_DONTNEED) == -1 && errno == EINVAL, "errno of madvise");
    memory[9] = 7;
    memory = mremap(memory, MIB, 4 * MIB, MREMAP_MAYMOVE);
    check(memory != MAP_FAILED && memory[9] == 7, "mremap");

    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, found;
    check(!sigaltstack(&alternate, NULL) && !sigaltstack(NULL, &found), "sigaltstack");
    check(found.ss_sp == stack, "the alternate stack");

    pthread_mutexattr_t robust;
    pthread_mutex_t mutex;
    check(!pthread_mutexattr_init(&robust), "attributes");
    check(!pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST), "robust attributes");
    check(!pthread_mutex_init(&mutex, &robust) && !pthread_mutex_lock(&mutex), "a robust mutex");

    int ends[2], waiting = 0;
    check(!pipe(ends) && write(ends[1], "abc", 3) == 3, "pipe");
    check(!ioctl(ends[0], FIONREAD, &waiting) && waiting == 3, "ioctl");

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(7);
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "fork");

    const char *preload = getenv("LD_PRELOAD");
    printf("OK %s\n", preload ? preload : "no LD_PRELOAD");
    fflush(stdout);
    if (argc > 1) {
        execvp(argv[1], argv + 1);
        check(0, argv[1]);
    }
    return 0;
}

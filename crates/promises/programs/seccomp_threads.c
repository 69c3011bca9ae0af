/* The program forbids itself, by a filter for all its threads, the call by which the kernel tells
 * where a thread keeps its control block (and with it its stack). Threads that it starts from then
 * on must not have their stacks taken: nothing is compressed any more, and that is said. */
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void forbid_get_robust_list(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_robust_list, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        die("PR_SET_NO_NEW_PRIVS");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        skip("no seccomp filter for all threads");
}

enum { DEPTH = 60, THREADS = 4 };
static const size_t STACK = 1 << 20;
static _Atomic int deep, woken;
static char *low[THREADS], *high[THREADS];

static void recurse(uint64_t index, unsigned depth) {
    volatile uint64_t frame[400];
    for (unsigned i = 0; i < 400; i++) frame[i] = word_of(index, depth, i);
    if (depth == DEPTH) {
        low[index] = (char *)((uintptr_t)frame & -PAGE);
        deep++;
        while (!woken) sleep_ms(20);
    } else {
        recurse(index, depth + 1);
    }
    for (unsigned i = 0; i < 400; i++)
        if (frame[i] != word_of(index, depth, i)) die("thread %d depth %u: its stack changed", (int)index, depth);
}

static void *lie_idle(void *context) {
    uint64_t index = (uintptr_t)context;
    high[index] = (char *)(((uintptr_t)pthread_self() & -PAGE) + PAGE);
    recurse(index, 0);
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t milliseconds = argument(argc, argv, 2, 2000);
    size_t bytes = 16 * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    forbid_get_robust_list();
    pthread_t handles[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, map_region(STACK), STACK);
        int e = pthread_create(&handles[i], &attributes, lie_idle, (void *)i);
        if (e) die("pthread_create: %s", strerror(e));
    }
    while (deep < THREADS) sleep_ms(1);
    for (uint64_t deadline = now_ms() + milliseconds; now_ms() < deadline; sleep_ms(50))
        for (unsigned i = 0; i < THREADS; i++)
            if (absent_pages(low[i], high[i] - low[i])) die("pages of the stack of thread %u were evicted", i);
    woken = 1;
    for (unsigned i = 0; i < THREADS; i++) join_thread(handles[i]);
    verify_region(region, bytes, 0, 1, "at the end");
    printf("OK %d threads that the kernel does not tell of\n", THREADS);
}

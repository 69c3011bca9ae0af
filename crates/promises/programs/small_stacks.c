/* How deep a program's stack gets in calls that the preload library takes part in, and whether stacks suffice that do
 * natively. Each was called before: the loader, which looks a function up at its first call, goes deeper. Arguments: seed, what, bytes by which small
 * stacks are larger, and whatever lets the program become nobody first.
 *   depths       prints a line "NAME DEPTH" for each call, in bytes
 *   coroutines   each call on a stack of 4 KiB without a guard, between content that is looked at
 *   thread       a fork in a thread of PTHREAD_STACK_MIN
 *   handler      a fork in a handler on an alternate stack of 8 KiB */
#include "common.h"
#include <limits.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

enum { BIG = 32 << 20, DEEP = 64 << 10, PAINT = 0xA5 };

static size_t extra;

static ucontext_t caller, coroutine;
static unsigned char *big;
static char *other;
static unsigned char *stack;
static size_t stack_bytes;
/* Shared with children: how deep theirs got, and what they found wrong. */
static volatile long *of_children;

static long depth(void) {
    size_t i = 0;
    while (i < stack_bytes && stack[i] == PAINT) i++;
    return (long)(stack_bytes - i);
}

static int wrong_pages(void) {
    int wrong = 0;
    for (size_t i = 0; i < BIG; i += 4096) wrong += big[i] != (unsigned char)(i / 4096 | 1);
    return wrong;
}

static void child(void) {
    long d = depth();
    if (d > of_children[0]) of_children[0] = d;
    if (wrong_pages()) _exit(1);
    _exit(0);
}

static void op_fork(void) {
    pid_t p = fork();
    if (p == 0) child();
    wait_success(p, "fork");
}

static void op_raw_fork(void) {
    pid_t p = (pid_t)syscall(SYS_fork);
    if (p == 0) child();
    wait_success(p, "fork");
}

static void op_plain_fork(void) {
    pid_t p = _Fork();
    if (p == 0) child();
    wait_success(p, "fork");
}

static int cloned(void *argument) {
    (void)argument;
    _exit(wrong_pages() != 0);
}

/* On a stack of its own, with a guard. */
static void op_clone(void) {
    size_t bytes = 4096 + extra;
    char *at = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, 4096, PROT_NONE);
    wait_success(clone(cloned, at + bytes + 4096, SIGCHLD, 0), "clone");
    munmap(at, bytes + 4096);
}

static void op_mremap(void) {
    char *p = mmap(0, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 1 << 20);
    char *q = mremap(p, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, p + (2 << 20));
    if (q != p + (2 << 20) || q[4096] != 1) die("mremap");
    /* Of two mappings. */
    if (mprotect(q, 1 << 19, PROT_READ)) die("mprotect");
    mremap(q, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, p);
    munmap(p, 3 << 20);
}

/* Of two mappings, which natively may be refused; the pager moves what it may have split itself piece by piece. */
static void op_pieces(void) {
    char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 1 << 20);
    if (mprotect(p, 1 << 19, PROT_READ)) die_errno("mprotect");
    size_t bytes = 1 << 20;
    char *q = mremap(p, bytes, 2 * bytes, MREMAP_MAYMOVE);
    if (q != MAP_FAILED) p = q, bytes *= 2;
    munmap(p, bytes);
}

static void *nothing(void *argument) { return argument; }

static void op_thread(void) {
    join_thread(start_thread(nothing, 0));
}

static void op_mutex(void) {
    static pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutex_destroy(&mutex);
}

static void op_advice(void) {
    static const int advice[] = {MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTNEED, MADV_FREE,
                                 102 /* MADV_GUARD_INSTALL */, 103 /* MADV_GUARD_REMOVE */};
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) madvise(other + 4096 * i, 65536, advice[i]);
}

static void op_memory(void) {
    char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p[0] = 1;
    mprotect(p, 4096, PROT_READ);
    mlock(p, 4096);
    munlock(p, 4096);
    munmap(p, 1 << 20);
}

static void op_lock_all(void) {
    mlockall(MCL_FUTURE);
    munlockall();
}

static void op_altstack(void) {
    stack_t s = {.ss_sp = other + (1 << 20), .ss_size = 65536};
    sigaltstack(&s, 0);
}

static void op_files(void) {
    int n, ends[2];
    if (pipe(ends)) die("pipe");
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC)) die("fcntl");
    ioctl(ends[0], FIONREAD, &n);
    close(ends[0]), close(ends[1]);
    prctl(PR_SET_NAME, "deep");
    syscall(SYS_futex, &n, 1, 1, 0, 0, 0);
}

static void op_spaces(void) {
    unshare(CLONE_FILES);
    unshare(CLONE_NEWNS);
    int space = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    setns(space, CLONE_NEWUTS);
    close(space);
}

static void op_shared(void) {
    int id = shmget(IPC_PRIVATE, 65536, 0600);
    if (id < 0) return;
    void *at = shmat(id, 0, 0);
    if (at != (void *)-1) shmdt(at);
    shmctl(id, IPC_RMID, 0);
}

static void op_advice_of_another(void) {
    struct iovec range = {other, 65536};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    process_madvise(self, &range, 1, MADV_COLD, 0);
    process_madvise(self, &range, 1, MADV_PAGEOUT, 0);
    close(self);
}

static const struct {
    const char *name;
    void (*run)(void);
} OPS[] = {
    {"fork", op_fork},
    {"raw-fork", op_raw_fork},
    {"plain-fork", op_plain_fork},
    {"clone", op_clone},
    {"mremap", op_mremap},
    {"pieces", op_pieces},
    {"thread", op_thread},
    {"mutex", op_mutex},
    {"advice", op_advice},
    {"advice-of-another", op_advice_of_another},
    {"memory", op_memory},
    {"lock-all", op_lock_all},
    {"altstack", op_altstack},
    {"files", op_files},
    {"spaces", op_spaces},
    {"shared", op_shared},
};
enum { COUNT = sizeof OPS / sizeof *OPS };

static void (*now)(void);
static void body(void) { now(); }

static void on(unsigned char *at, size_t bytes, void (*run)(void)) {
    memset(at, PAINT, bytes);
    stack = at, stack_bytes = bytes, now = run;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = at;
    coroutine.uc_stack.ss_size = bytes;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, body, 0);
    swapcontext(&caller, &coroutine);
}

static void depths(void) {
    unsigned char *at = mmap(0, DEEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < COUNT; i++) {
        long most = 0;
        of_children[0] = 0;
        for (int round = 0; round < 3; round++) {
            on(at, DEEP, OPS[i].run);
            if (depth() > most) most = depth();
        }
        printf("%s %ld\n", OPS[i].name, most);
        if (of_children[0]) printf("%s-child %ld\n", OPS[i].name, of_children[0]);
    }
}

static void coroutines(void) {
    size_t bytes = 4096 + extra;
    unsigned char *arena = mmap(0, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < COUNT; i++) {
        memset(arena, 0x5A, 3 * bytes);
        on(arena + bytes, bytes, OPS[i].run);
        for (size_t j = 0; j < bytes; j++)
            if (arena[j] != 0x5A || arena[2 * bytes + j] != 0x5A) die("%s: what lies beside the stack was overwritten", OPS[i].name);
    }
}

static void *forks(void *argument) {
    op_fork();
    return argument;
}

static void thread(void) {
    pthread_attr_t attributes;
    pthread_t id;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + extra);
    if (pthread_create(&id, &attributes, forks, 0) || pthread_join(id, 0)) die("a thread of PTHREAD_STACK_MIN");
}

static void on_signal(int signal) {
    (void)signal;
    op_fork();
}

static void handler(void) {
    size_t bytes = 8192 + extra;
    char *at = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, 4096, PROT_NONE);
    stack_t s = {.ss_sp = at + 4096, .ss_size = bytes};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&s, 0) || sigaction(SIGUSR1, &action, 0) || raise(SIGUSR1)) die_errno("handler");
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    const char *what = argc > 2 ? argv[2] : "";
    extra = (size_t)argument(argc, argv, 3, 0);
    of_children = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    big = mmap(0, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    other = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < BIG; i += 4096) big[i] = (unsigned char)(i / 4096 | 1);
    if (argc > 4 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) die_errno("setresuid");
    if (managed()) settle(big, BIG);
    stack = big;
    for (int i = 0; i < COUNT; i++) OPS[i].run();
    if (!strcmp(what, "depths")) depths();
    else if (!strcmp(what, "coroutines")) coroutines();
    else if (!strcmp(what, "thread")) thread();
    else if (!strcmp(what, "handler")) handler();
    else die("depths, coroutines, thread or handler");
    printf("OK %s\n", what);
    return 0;
}

/* Calls that natively wait for nobody, or for others only who do not wait for them: libc's and the loader's locks, and what
 * stands beside them. Arguments: seed, what; a library, which is this source compiled with -shared -DLIBRARY.
 *   constructor  a library's constructor waits for a thread that makes a mutex, the first of the process
 *   message      a mutex is made between a failed dlopen and dlerror
 *   cookie       a file's own `write` moves memory while another thread forks
 *   plain        _Fork while fflush of all files waits for what the child reads
 *   signal       a thread that forks meanwhile takes a signal
 *   future       mlockall(MCL_CURRENT) ends what mlockall(MCL_FUTURE) said
 *   chroot       the status of a child of clone that has no /proc
 *   tls          a child of clone that was given a thread control block of its own ends by SIGTERM */
#include "common.h"
#include <dlfcn.h>
#include <semaphore.h>

static sem_t ready;

#ifdef LIBRARY

static pthread_mutex_t mutex;

static void *make(void *argument) {
    pthread_mutex_init(&mutex, 0);
    sem_post(&ready);
    return argument;
}

static __attribute__((constructor)) void begin(void) {
    sem_init(&ready, 0, 0);
    pthread_t thread = start_thread(make, 0);
    sem_wait(&ready);
    join_thread(thread);
}

#else

static void constructor(const char *library) {
    if (!dlopen(library, RTLD_NOW)) die("%s", dlerror());
}

static void message(void) {
    pthread_mutex_t mutex;
    if (dlopen("/nothing", RTLD_NOW)) die("it opened");
    pthread_mutex_init(&mutex, 0);
    const char *why = dlerror();
    if (!why || !strstr(why, "/nothing")) die("dlerror: %s", why ? why : "nothing");
}

static char *moved;
static size_t moved_bytes = 1 << 20;

static ssize_t write_slowly(void *cookie, const char *bytes, size_t count) {
    (void)cookie, (void)bytes;
    sleep_ms(300);
    moved = mremap(moved, moved_bytes, 2 * moved_bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) die_errno("mremap");
    moved_bytes *= 2;
    return (ssize_t)count;
}

static void *fork_soon(void *argument) {
    sleep_ms(100);
    pid_t child = fork();
    if (child == 0) _exit(0);
    wait_success(child, "fork");
    return argument;
}

static void cookie(void) {
    FILE *file = fopencookie(0, "w", (cookie_io_functions_t){.write = write_slowly});
    fputc('x', file);
    pthread_t thread = start_thread(fork_soon, 0);
    fflush(0);
    join_thread(thread);
}

static int ends[2];

static void *flush_much(void *argument) {
    enum { MUCH = 200 << 10 };
    FILE *file = fdopen(ends[1], "w");
    static char buffer[MUCH];
    setvbuf(file, buffer, _IOFBF, MUCH);
    for (int i = 0; i < MUCH - 1; i++) fputc('x', file);
    fflush(0);
    return argument;
}

static void drain(size_t wanted) {
    char bytes[4096];
    for (ssize_t n; wanted; wanted -= (size_t)n)
        if ((n = read(ends[0], bytes, sizeof bytes < wanted ? sizeof bytes : wanted)) <= 0) die_errno("read");
}

static pthread_t begin_to_flush(void) {
    if (pipe(ends)) die_errno("pipe");
    pthread_t thread = start_thread(flush_much, 0);
    sleep_ms(300);
    return thread;
}

static void plain(void) {
    pthread_t thread = begin_to_flush();
    pid_t child = _Fork();
    if (child == 0) {
        drain((200 << 10) - 1);
        _exit(0);
    }
    wait_success(child, "fork");
    join_thread(thread);
}

static void take(int signal) {
    (void)signal;
    sem_post(&ready);
}

static void at_signal(void) {
    struct sigaction action = {.sa_handler = take};
    sem_init(&ready, 0, 0);
    sigaction(SIGUSR1, &action, 0);
    pthread_t flusher = begin_to_flush(), forker = start_thread(fork_soon, 0);
    sleep_ms(400);
    pthread_kill(forker, SIGUSR1);
    while (sem_wait(&ready)) {}
    drain((200 << 10) - 1);
    join_thread(forker);
    join_thread(flusher);
}

static long locked_kib(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (fgets(line, sizeof line, status)) sscanf(line, "VmLck: %ld", &kib);
    fclose(status);
    return kib;
}

static void future(void) {
    if (mlockall(MCL_FUTURE) || mlockall(MCL_CURRENT)) skip("mlockall");
    long before = locked_kib();
    map_region(4 * MIB);
    if (locked_kib() - before >= 4096) die("new memory is locked: %ld, then %ld KiB", before, locked_kib());
    munlockall();
}

static int seven(void *argument) {
    (void)argument;
    return 7;
}

static int is_ended(void *argument) {
    (void)argument;
    syscall(SYS_kill, syscall(SYS_getpid), SIGTERM);
    return 3;
}

static int status_of(int (*body)(void *), int flags, void *tls) {
    int status;
    char *stack = map_region(MIB);
    pid_t child = clone(body, stack + MIB, flags | SIGCHLD, 0, 0, tls, 0);
    if (child < 0 || waitpid(child, &status, 0) != child) die_errno("clone");
    return status;
}

static void in_a_chroot(void) {
    char name[] = "libc-locks-XXXXXX";
    if (!mkdtemp(name)) die_errno(name);
    if (chroot(name) || chdir("/")) skip("chroot");
    int status = status_of(seven, 0, 0);
    if (status != 7 << 8) die("status %#x", status);
}

static void tls(void) {
    void **block = (void **)(map_region(MIB) + MIB / 2);
    block[0] = block[2] = block;
    int status = status_of(is_ended, CLONE_SETTLS, block);
    if (status != SIGTERM) die("status %#x", status);
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[2] : "";
    alarm(20);
    char *region = map_region(24 * MIB);
    fill_region(region, 24 * MIB, 1, 1);
    moved = map_region(moved_bytes);
    if (!getenv("PROMISES_WAITS")) settle(region, 24 * MIB);
    if (!strcmp(what, "constructor")) constructor(argv[3]);
    else if (!strcmp(what, "message")) message();
    else if (!strcmp(what, "cookie")) cookie();
    else if (!strcmp(what, "plain")) plain();
    else if (!strcmp(what, "signal")) at_signal();
    else if (!strcmp(what, "future")) future();
    else if (!strcmp(what, "chroot")) in_a_chroot();
    else if (!strcmp(what, "tls")) tls();
    else die("what?");
    printf("OK %s\n", what);
    return 0;
}

#endif

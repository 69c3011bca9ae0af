/* Memory that others change or outlive. Arguments: seed, what:
 *   outlives   a process that shares the memory (CLONE_VM without CLONE_VFORK) verifies it after its maker has ended
 *   guards     guard pages put up and taken away by process_madvise on itself: zeros afterwards
 *   cleared    the word that the kernel clears at a thread's end lies on a page that is away
 *   registers  a userfaultfd of the program's registers cold memory through libc's syscall()
 *   moves      a userfaultfd of the program's moves cold pages (UFFDIO_MOVE) to memory that it has registered */
#include "common.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

enum { PAGES = 2048, STACK = 256 << 10 };
static char *region;
static int answer[2];
static atomic_int go;

static char *filled(void) {
    char *pages = map_apart(PAGES * PAGE);
    fill_region(pages, PAGES * PAGE, 0, 1);
    return pages;
}

static void verify_all(const char *who) {
    verify_region(region, PAGES * PAGE, 0, 1, who);
}

static int sharer(void *unused) {
    (void)unused;
    /* Until its maker has ended: then init, or a subreaper, is its parent. */
    pid_t maker = getppid();
    if (write(answer[1], "r", 1) != 1) _exit(2);
    while (getppid() == maker) sleep_ms(5);
    sleep_ms(200);
    verify_all("in the process that outlives its maker");
    _exit(write(answer[1], "k", 1) != 1);
}

static char *stack_end(void) {
    char *stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) die_errno("mmap");
    return stack + STACK;
}

static void outlives(void) {
    if (pipe(answer)) die_errno("pipe");
    pid_t maker = fork();
    if (maker < 0) die_errno("fork");
    if (maker == 0) {
        region = filled();
        settle(region, PAGES * PAGE);
        if (clone(sharer, stack_end(), CLONE_VM | SIGCHLD, 0) < 0) die_errno("clone");
        char byte;
        if (read(answer[0], &byte, 1) != 1) die_errno("read");
        _exit(0);
    }
    close(answer[1]);
    int status;
    if (waitpid(maker, &status, 0) < 0 || status) die("the maker ended with %#x", status);
    char bytes[2];
    ssize_t got = read(answer[0], bytes, 1);
    if (got != 1 || bytes[0] != 'k') die("the process that outlives its maker found something wrong");
}

static void guards(void) {
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0) skip("pidfd_open");
    region = filled();
    struct iovec part = {region + 512 * PAGE, 512 * PAGE};
    settle(region, PAGES * PAGE);
    if (syscall(SYS_process_madvise, self, &part, 1ul, MADV_GUARD_INSTALL, 0u) < 0) skip("MADV_GUARD_INSTALL");
    sleep_ms(300);
    if (syscall(SYS_process_madvise, self, &part, 1ul, MADV_GUARD_REMOVE, 0u) < 0) die_errno("MADV_GUARD_REMOVE");
    for (size_t n = 0; n < PAGES; n++) {
        char *page = region + n * PAGE;
        if (n < 512 || n >= 1024) verify_page(page, n, 1, "beside the guards");
        else if (*(volatile uint64_t *)page) die("page %zu holds what was there before the guard", n);
    }
}

static int waiter(void *unused) {
    (void)unused;
    while (!go) sleep_ms(1);
    return 0;
}

static void cleared(void) {
    region = filled();
    _Atomic int *tid = (void *)(region + 1000 * PAGE + 128);
    *tid = -1;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    if (clone(waiter, stack_end(), flags, 0, 0, 0, tid) < 0) die_errno("clone");
    settle(region, 900 * PAGE);
    sleep_ms(500);
    go = 1;
    for (int i = 0; *tid && i < 5000; i++) sleep_ms(1);
    if (*tid) die("the thread has ended, and the word is not cleared");
}

static atomic_int told;

static void *names_its_word(void *word) {
    syscall(SYS_set_tid_address, word);
    told = 1;
    while (!go) sleep_ms(1);
    syscall(SYS_exit, 0);
    return 0;
}

static void addressed(void) {
    region = filled();
    _Atomic int *tid = (void *)(region + 1000 * PAGE + 128);
    *tid = -1;
    pthread_t thread;
    if (pthread_create(&thread, 0, names_its_word, (void *)tid)) die("pthread_create");
    while (!told) sleep_ms(1);
    settle(region, 900 * PAGE);
    sleep_ms(500);
    go = 1;
    for (int i = 0; *tid && i < 5000; i++) sleep_ms(1);
    if (*tid) die("the thread has ended, and the word that it named is not cleared");
}

static void registers(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) skip("userfaultfd");
    region = filled();
    settle(region, PAGES * PAGE);
    struct uffdio_register range = {.range = {(uintptr_t)region, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &range)) die_errno("UFFDIO_REGISTER");
    verify_all("after the program has registered it");
}

#ifndef UFFDIO_MOVE
struct uffdio_move {
    uint64_t dst, src, len, mode;
    int64_t move;
};
#define UFFDIO_MOVE _IOWR(0xAA, 0x05, struct uffdio_move)
#define UFFD_FEATURE_MOVE (1 << 16)
#endif

static void moves(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MOVE};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) skip("userfaultfd");
    char *from = filled(), *to = map_apart(PAGES * PAGE);
    struct uffdio_register range = {.range = {(uintptr_t)to, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(fd, UFFDIO_REGISTER, &range)) die_errno("UFFDIO_REGISTER");
    settle(from, PAGES * PAGE);
    for (size_t done = 0; done < PAGES * PAGE;) {
        struct uffdio_move move = {(uintptr_t)to + done, (uintptr_t)from + done, PAGES * PAGE - done, 0, 0};
        if (ioctl(fd, UFFDIO_MOVE, &move) && errno != EAGAIN) die_errno("UFFDIO_MOVE");
        if (move.move > 0) done += move.move;
    }
    region = to;
    verify_all("where the program has moved it");
}

int main(int argc, char **argv) {
    seed = strtoull(argv[1], 0, 10);
    const char *what = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "outlives")) outlives();
    else if (!strcmp(what, "guards")) guards();
    else if (!strcmp(what, "cleared")) cleared();
    else if (!strcmp(what, "addressed")) addressed();
    else if (!strcmp(what, "moves")) moves();
    else registers();
    printf("OK %s\n", what);
    return 0;
}

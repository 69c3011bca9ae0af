/* Hazard: a process that may have no descriptors any more (RLIMIT_NOFILE 0, as sandboxes set it) is copied: by libc's
 * fork, and by an instruction of its own. Where the kernel tells the pager of copies, it does so by a descriptor.
 * Children have all content (one that no hook has seen may be killed where the pager is not told), and nothing hangs.
 * Arguments: seed, MiB. */
#include "common.h"
#include <sys/resource.h>

static char *region;
static size_t bytes;

static int child(void) {
    for (size_t i = 0; i < bytes / PAGE; i++)
        if (first_wrong(region + i * PAGE, i, 1) >= 0) return 3;
    return 0;
}

static int await(pid_t pid) {
    int status;
    uint64_t deadline = now_ms() + 20000;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() > deadline) {
            kill(pid, SIGKILL);
            die("a child hangs");
        }
        sleep_ms(2);
    }
    return status;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 24) * MIB;
    region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none)) die_errno("setrlimit");
    pid_t pid = fork();
    if (pid < 0) die_errno("fork");
    if (pid == 0) _exit(child());
    int status = await(pid);
    if (status) die("the child of fork ended with status %#x", status);
    long raw = raw_clone();
    if (raw < 0) die("clone: error %ld", -raw);
    if (raw == 0) syscall(SYS_exit_group, child());
    status = await(raw);
    int refused = WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
    if (status && !refused) die("the cloned child ended with status %#x", status);
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) || now.rlim_cur || now.rlim_max) die("the limit has changed");
    verify_region(region, bytes, 0, 1, "parent");
    printf("OK %s\n", refused ? "refused" : "right");
}

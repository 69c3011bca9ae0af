/* Hazard: daemons and shells close every descriptor they do not know, or dup2 over low numbers.
 * With the last userfaultfd closed blocked readers get zeros. Sweeps by close_range, by a loop
 * of close, by both as raw system calls, by closefrom, by dup2 and dup3; after each, eviction
 * and restore must still work. Arguments: seed, MiB. */
#include "common.h"
#include <sys/resource.h>

static void sweep_range(void) { close_range(3, ~0u, 0); }
static void sweep_raw_range(void) { syscall(SYS_close_range, 3, ~0u, 0); }
static void sweep_closefrom(void) { closefrom(3); }
static void sweep_cloexec(void) { close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); }

static int highest(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur < 70000 ? (int)limit.rlim_cur : 70000;
}

static void sweep_loop(void) {
    for (int fd = 3; fd < highest(); fd++) close(fd);
}

static void sweep_raw_loop(void) {
    for (int fd = 3; fd < highest(); fd++) syscall(SYS_close, fd);
}

static void sweep_dup2(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 3; fd < 64; fd++)
        if (fd != null && dup2(null, fd) != fd) die("dup2 over %d: %s", fd, strerror(errno));
    for (int fd = 3; fd < 64; fd++) close(fd);
}

static void sweep_raw_dup(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 3; fd < 64; fd++)
        if (fd != null) syscall(fd % 2 ? SYS_dup2 : SYS_dup3, null, fd, 0);
    for (int fd = 3; fd < 64; fd++) syscall(SYS_close, fd);
}

static const struct {
    const char *name;
    void (*sweep)(void);
} sweeps[] = {
    {"close_range", sweep_range},       {"closing loop", sweep_loop}, {"raw close_range", sweep_raw_range},
    {"raw closing loop", sweep_raw_loop}, {"closefrom", sweep_closefrom}, {"dup2", sweep_dup2},
    {"raw dup2 and dup3", sweep_raw_dup}, {"close-on-exec range", sweep_cloexec},
};

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    unsigned count = sizeof sweeps / sizeof *sweeps;
    for (unsigned i = 0; i < count; i++) {
        settle(region, bytes); /* something is out when the sweep comes */
        sweeps[i].sweep();
        verify_region(region, bytes, 0, i, sweeps[i].name);
        fill_region(region, bytes, 0, i + 1);
        settle(region, bytes); /* and eviction goes on */
        verify_region(region, bytes, 0, i + 1, sweeps[i].name);
        settle(region, bytes);
        pid_t pid = fork(); /* the child's pager too */
        if (pid == 0) {
            verify_region(region, bytes, 0, i + 1, "child after a sweep");
            _exit(0);
        }
        if (wait_exit(pid, sweeps[i].name)) return 1;
        /* What was resident at the fork stays unmovable until it is next written. */
        fill_region(region, bytes, 0, i + 1);
    }
    printf("OK %u sweeps\n", count);
}

/* Seccomp filters: for all threads, those of the pager, too; inherited by the pager of a forked child; met by the
 * library in the program's own threads. The program goes on as natively, with all its memory.
 * Arguments: seed, how. */
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define ANY_OF(...) ((const int[]){__VA_ARGS__, -1})

static const size_t BYTES = 16 << 20;

/* One action for the calls of a list, another for all others. */
static struct sock_fprog filter(const int *list, uint32_t listed, uint32_t others) {
    static struct sock_filter code[512];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; *list >= 0; list++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *list, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    return (struct sock_fprog){n, code};
}

static void for_all_threads(struct sock_fprog program) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die_errno("PR_SET_NO_NEW_PRIVS");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) skip("no filter");
}

static void for_this_thread(struct sock_fprog program) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die_errno("PR_SET_NO_NEW_PRIVS");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) skip("no filter");
}

/* By the instruction itself: nobody sees it coming. */
static void unseen(struct sock_fprog program) {
    long result;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die_errno("PR_SET_NO_NEW_PRIVS");
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(SECCOMP_FILTER_FLAG_TSYNC), "d"(&program)
                     : "rcx", "r11", "memory");
    if (result) skip("no filter");
}

static void go_on(char *region, int is_managed) {
    for (uint64_t round = 2; round < 4; round++) {
        verify_region(region, BYTES, 0, round - 1, "under the filter");
        fill_region(region, BYTES, 0, round);
        if (is_managed) settle(region, BYTES);
        else sleep_ms(100);
    }
    verify_region(region, BYTES, 0, 3, "at the end");
}

/* Far more than the budget, so that pages are taken and come back all the time. */
static const size_t MORE_BYTES = 64 << 20;

static void touch_at_random(const char *region, unsigned ms) {
    uint64_t state = 1;
    for (uint64_t end = now_ms() + ms; now_ms() < end;) {
        for (int n = 0; n < 64; n++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            (void)*(const volatile char *)(region + (state >> 33) % (MORE_BYTES / PAGE) * PAGE);
        }
    }
}

/* The filter comes in the middle of that, again and again. */
static void under_load(struct sock_fprog no_start, int seen) {
    char *more = map_region(MORE_BYTES);
    fill_region(more, MORE_BYTES, 10000, 1);
    for (int round = 0; round < 8; round++) {
        touch_at_random(more, 150 + round * 7);
        if (seen)
            for_all_threads(no_start);
        else
            unseen(no_start);
    }
    touch_at_random(more, 200);
    verify_region(more, MORE_BYTES, 10000, 1, "under load");
}

/* The filter is the child's, which executes something under it. */
static void in_a_child_that_shares_memory(void) {
    static struct sock_fprog no_pager;
    no_pager = filter(ANY_OF(SYS_userfaultfd, SYS_ioctl, SYS_ppoll), SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    pid_t child = vfork();
    if (child < 0) die_errno("vfork");
    if (!child) {
        for_this_thread(no_pager);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    int e = wait_exit(child, "under the filter");
    if (e) die("the child has ended with %d", e);
}

/* Nothing has come of it: the kernel does not know the flag. */
static void refused_by_the_kernel(void) {
    struct sock_fprog no_pager = filter(ANY_OF(SYS_ioctl, SYS_ppoll, SYS_pread64), SECCOMP_RET_KILL_PROCESS,
                                        SECCOMP_RET_ALLOW);
    unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | 1u << 30;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &no_pager) == 0) die("a filter with an unknown flag");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    const char *how = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "after")) {
        char *fresh = map_region(BYTES);
        fill_region(fresh, BYTES, 0, 1);
        verify_region(fresh, BYTES, 0, 1, "after exec");
        dprintf(1, "OK exec\n");
        _exit(0);
    }
    int none = open("/dev/null", O_RDONLY);
    if (none < 0) die_errno("/dev/null");
    /* Before the pager has taken anything. */
    struct sock_fprog no_start = filter(ANY_OF(SYS_clone, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_getattr,
                                               SYS_userfaultfd, SYS_eventfd2),
                                        SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    if (!strcmp(how, "early")) for_all_threads(no_start);
    if (!strcmp(how, "early_unseen")) unseen(no_start);
    if (!strcmp(how, "early_vfork")) in_a_child_that_shares_memory();
    if (!strcmp(how, "early_invalid")) refused_by_the_kernel();
    char *region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    settle(region, BYTES);
    if (!strcmp(how, "listed")) {
        /* What the pager needs and wants (crates/pager/src/machine/filter.rs), and in the last line what this program does. */
        unseen(filter(ANY_OF(SYS_read, SYS_ppoll, SYS_pread64, SYS_nanosleep, SYS_clock_gettime, SYS_restart_syscall,
                             SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group, SYS_tgkill, SYS_mincore, SYS_futex,
                             SYS_madvise, SYS_process_vm_readv, SYS_ioctl, SYS_open, SYS_openat, SYS_close, SYS_write, SYS_lseek,
                             SYS_getdents64, SYS_get_robust_list, SYS_pidfd_open, 438 /* pidfd_getfd */, SYS_close_range,
                             SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_kill,
                             SYS_clock_nanosleep, SYS_mmap, SYS_munmap, SYS_brk, SYS_newfstatat, SYS_getrandom),
                      SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS));
        go_on(region, 1);
        sleep_ms(1500);
    } else if (!strncmp(how, "busy", 4)) {
        under_load(no_start, !how[4]);
        go_on(region, 1);
    } else if (!strncmp(how, "early", 5)) {
        go_on(region, 1);
    } else if (!strcmp(how, "bearable")) {
        for_all_threads(filter(ANY_OF(SYS_ptrace, SYS_mount, SYS_userfaultfd, SYS_clone, SYS_sched_setaffinity),
                               SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW));
        go_on(region, 1);
    } else if (!strcmp(how, "killed") || !strcmp(how, "trapped") || !strcmp(how, "refused")) {
        uint32_t action = how[0] == 'k' ? SECCOMP_RET_KILL_PROCESS
                                        : how[0] == 't' ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
        for_all_threads(filter(ANY_OF(SYS_ioctl, SYS_ppoll, SYS_pread64), action, SECCOMP_RET_ALLOW));
        go_on(region, 0);
    } else if (!strcmp(how, "child")) {
        for_this_thread(filter(ANY_OF(SYS_userfaultfd, SYS_sched_setaffinity, SYS_eventfd2, SYS_chdir),
                               SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW));
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (!child) {
            verify_region(region, BYTES, 0, 1, "child");
            fill_region(region, BYTES, 0, 2);
            verify_region(region, BYTES, 0, 2, "child");
            _exit(0);
        }
        int e = wait_exit(child, "under the filter");
        if (e) die("the child has ended with %d", e);
        go_on(region, 0);
    } else if (!strcmp(how, "exec") || !strcmp(how, "exec_alone")) {
        const int *start = ANY_OF(SYS_userfaultfd, SYS_sched_setaffinity, SYS_eventfd2, SYS_chdir);
        const int *start_and_fork = ANY_OF(SYS_userfaultfd, SYS_sched_setaffinity, SYS_eventfd2, SYS_clone);
        for_this_thread(filter(how[4] ? start_and_fork : start, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW));
        execl("/proc/self/exe", argv[0], argv[1], "after", NULL);
        die_errno("exec");
    } else if (!strcmp(how, "vfork")) {
        in_a_child_that_shares_memory();
        go_on(region, 1);
    } else if (!strcmp(how, "wrappers")) {
        for_this_thread(filter(ANY_OF(SYS_rt_sigprocmask, SYS_clone, 435 /* clone3 */), SECCOMP_RET_KILL_PROCESS,
                               SECCOMP_RET_ALLOW));
        if (madvise(region, BYTES, MADV_DONTFORK) || madvise(region, BYTES, MADV_DOFORK)) die_errno("madvise");
        go_on(region, 0);
    } else if (!strcmp(how, "strict")) {
        for_this_thread(filter(ANY_OF(SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn), SECCOMP_RET_ALLOW,
                               SECCOMP_RET_KILL_PROCESS));
        verify_region(region, BYTES, 0, 1, "under the filter");
        _exit(write(1, "OK strict\n", 10) != 10);
    } else if (!strcmp(how, "exit")) {
        for_this_thread(filter(ANY_OF(SYS_open, SYS_openat, SYS_clone, 435 /* clone3 */, SYS_fork, SYS_vfork),
                               SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW));
        verify_region(region, BYTES, 0, 1, "under the filter");
        printf("OK exit\n");
        exit(0);
    } else if (!strcmp(how, "listener")) {
        struct sock_fprog notify = filter(ANY_OF(SYS_open, SYS_openat), SECCOMP_RET_USER_NOTIF, SECCOMP_RET_ALLOW);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die_errno("PR_SET_NO_NEW_PRIVS");
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &notify) < 0) skip("no listener");
        go_on(region, 0);
    } else {
        die("no such filter: %s", how);
    }
    dprintf(1, "OK %s\n", how);

    _exit(0);
}

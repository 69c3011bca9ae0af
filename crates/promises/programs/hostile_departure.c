/* The program's threads leave one by one, by the bare system call, by strict seccomp, by a filter that kills a
 * thread: the process ends with the last of them, and with its status.
 * Arguments: seed, how. */
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

static const size_t BYTES = 8 << 20;
static char *region;

static void leave(int status) { syscall(SYS_exit, status); }

static void be_strict(void) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) skip("no strict seccomp");
}

static void kill_me_at_getppid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        skip("no seccomp filter");
    syscall(SYS_getppid);
}

static void check(void) { verify_region(region, BYTES, 0, 1, "at the end"); }

static void *leave_later(void *status) {
    sleep_ms(400);
    check();
    leave((intptr_t)status);
    return NULL;
}

static void *be_killed_later(void *unused) {
    sleep_ms(400);
    check();
    kill_me_at_getppid();
    return unused;
}

static void *return_later(void *unused) {
    sleep_ms(400);
    check();
    return unused;
}

static void *exit_later(void *unused) {
    sleep_ms(400);
    check();
    exit(11);
    return unused;
}

static void end(const char *how) {
    if (!strcmp(how, "leader")) check(), leave(7);
    if (!strcmp(how, "strict")) check(), be_strict(), leave(9);
    if (!strcmp(how, "strict_killed")) check(), be_strict(), syscall(SYS_getpid);
    if (!strcmp(how, "killed")) check(), kill_me_at_getppid();
    if (!strcmp(how, "thread")) start_thread(leave_later, (void *)5), leave(3);
    if (!strcmp(how, "thread_killed")) start_thread(be_killed_later, NULL), leave(3);
    if (!strcmp(how, "leader_last")) start_thread(leave_later, (void *)5), sleep_ms(800), leave(3);
    if (!strcmp(how, "pthread_exit")) start_thread(return_later, NULL), pthread_exit(NULL);
    if (!strcmp(how, "exit_later")) start_thread(exit_later, NULL), pthread_exit(NULL);
    if (!strcmp(how, "child")) {
        pid_t child = fork();
        int status;
        if (!child) check(), leave(6);
        if (waitpid(child, &status, 0) != child) die_errno("waitpid");
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    die("no such end: %s", how);
}

int main(int argc, char **argv) {
    struct rlimit_none { unsigned long soft, hard; } none = {0, 0};
    syscall(SYS_setrlimit, 4 /* RLIMIT_CORE */, &none);
    seed = argument(argc, argv, 1, 1);
    region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    settle(region, BYTES);
    dprintf(1, "settled\n");
    end(argc > 2 ? argv[2] : "");
}

/* Story: a forked child that could have no pager (another user, a chroot, a process that is not dumpable, no further
 * thread, no free descriptor) ended with status 125, and one made by libc's clone() was killed by SIGSEGV. It must have
 * all content, with the protections that its parent had. Arguments: seed, MiB, how.
 *
 * Half of the region can be written; the rest is read-only, closed, and code, a third each. */
#include "common.h"
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { WRITABLE, READ_ONLY, CLOSED, CODE, PARTS };
static const int protections[PARTS] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC};
static char *parts[PARTS];
static size_t lengths[PARTS], part_pages;
static char *grown; /* 1 MiB, and one by which it has grown without a word to the pager */
static int channel[2];
static const char *how;

static int is(const char *name) { return strcmp(how, name) == 0; }

/* What the kernel may do with the first byte of a part, for us. */
static int readable(int part) { return write(channel[1], parts[part], 1) == 1 && read(channel[0], &(char){0}, 1) == 1; }

static int writable(int part) {
    char first = parts[part][0];
    if (write(channel[1], &first, 1) != 1) die_errno("write to the pipe");
    if (read(channel[0], parts[part], 1) == 1) return 1;
    if (errno != EFAULT || read(channel[0], &first, 1) != 1) die_errno("read from the pipe");
    return 0;
}

static int verify_child(void *ignored) {
    (void)ignored;
    if (!readable(WRITABLE) || !writable(WRITABLE)) die("the writable part cannot be written");
    if (!readable(READ_ONLY) || writable(READ_ONLY)) die("the read-only part has another protection");
    if (readable(CLOSED)) die("the closed part can be read");
    if (!readable(CODE) || writable(CODE)) die("the part of code has another protection");
    if (((int (*)(void))(parts[CODE] + lengths[CODE] - PAGE))() != 42) die("code does not run");
    if (mprotect(parts[CLOSED], lengths[CLOSED], PROT_READ)) die_errno("mprotect");
    for (int part = 0; part < PARTS; part++)
        verify_region(parts[part], lengths[part] - (part == CODE) * PAGE, part * part_pages, 1, how);
    verify_region(grown, 2 * MIB, 1u << 20, 1, "what has grown");
    fill_region(parts[WRITABLE], lengths[WRITABLE], 0, 2);
    verify_region(parts[WRITABLE], lengths[WRITABLE], 0, 2, "what the child has written");
    return 0;
}

static void refuse_calls(const int *numbers, unsigned count) {
    struct sock_filter code[16];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], count - i, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        die_errno("seccomp");
}

static void prepare(void) {
    if (is("setuid")) {
        if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) die_errno(how);
    } else if (is("seteuid")) {
        if (seteuid(65534)) die_errno(how);
    } else if (is("seteuid_back")) {
        if (seteuid(65534) || seteuid(0)) die_errno(how);
    } else if (is("setresuid")) {
        if (setresuid(65534, 65534, 0)) die_errno(how);
    } else if (is("capabilities")) {
        struct { unsigned version; int pid; } head = {0x20080522, 0};
        unsigned none[6] = {0};
        if (syscall(SYS_capset, &head, none)) die_errno(how);
    } else if (is("no_new_privileges")) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die_errno(how);
    } else if (is("chroot")) {
        if (chroot(".") || chdir("/")) die_errno(how);
    } else if (is("chroot_setuid")) {
        if (chroot(".") || chdir("/") || setgid(65534) || setuid(65534)) die_errno(how);
    } else if (is("dumpable")) {
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) die_errno(how);
    } else if (is("landlock")) {
        struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                                                                  LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE};
        int set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
        if (set < 0) skip("Landlock");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, set, 0)) die_errno(how);
        close(set);
    } else if (is("files")) {
        while (dup(0) >= 0) {}
        if (errno != EMFILE) die_errno(how);
    } else if (is("filter")) {
        refuse_calls((int[]){SYS_userfaultfd}, 1);
    } else if (is("filter_and_no_maps")) {
        refuse_calls((int[]){SYS_userfaultfd, SYS_openat, SYS_open}, 3);
    } else if (is("filter_threads")) {
        refuse_calls((int[]){SYS_clone, SYS_clone3}, 2);
    }
}

/* As fork. */
static pid_t copy(void) {
    if (is("raw_fork") || is("filter_threads")) return syscall(SYS_fork);
    if (is("raw_clone")) return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (is("raw_clone3")) return syscall(SYS_clone3, &(struct clone_args){.exit_signal = SIGCHLD}, sizeof(struct clone_args));
    if (is("clone") || is("clone_user")) {
        size_t stack = 256 << 10;
        int flags = is("clone") ? SIGCHLD : SIGCHLD | CLONE_NEWUSER;
        pid_t child = clone(verify_child, (char *)map_region(stack) + stack, flags, NULL);
        if (child < 0 && is("clone_user") && errno == EPERM) skip("CLONE_NEWUSER");
        return child;
    }
    if (is("threads")) { /* the least limit under which a child can be made */
        struct rlimit limit;
        getrlimit(RLIMIT_NPROC, &limit);
        for (rlim_t most = 1; most < 100000; most++) {
            limit.rlim_cur = most;
            if (setrlimit(RLIMIT_NPROC, &limit)) die_errno("setrlimit");
            pid_t child = fork();
            if (child >= 0) return child;
        }
        die("no limit is enough");
    }
    return fork();
}

static void *go_on(void *main_thread) {
    if (is("main_left")) pthread_join(*(pthread_t *)main_thread, NULL);
    prepare();
    if (munmap(grown + MIB, MIB)) die_errno("munmap");
    if (syscall(SYS_mremap, grown, MIB, 2 * MIB, 0) != (long)grown) die_errno("mremap");
    fill_region(grown + MIB, MIB, (1u << 20) + MIB / PAGE, 1);
    for (int part = 0; part < PARTS; part++) insist_away(absent_pages(parts[part], lengths[part]), "a part of the region");
    pid_t child = copy();
    if (child < 0) die_errno("fork");
    if (child == 0) _exit(verify_child(NULL));
    if (wait_exit(child, how)) die("the child found something wrong");
    mprotect(parts[CLOSED], lengths[CLOSED], PROT_READ);
    for (int part = 0; part < PARTS; part++)
        verify_region(parts[part], lengths[part] - (part == CODE) * PAGE, part * part_pages, 1, "in the parent");
    dprintf(1, "OK %s\n", how);
    _exit(0);
}

int main(int argc, char **argv) {
    static pthread_t self;
    self = pthread_self();
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    how = argc > 3 ? argv[3] : "fork";
    char *region = map_region(bytes);
    if (pipe(channel)) die_errno("pipe");
    part_pages = bytes / 2 / PAGE;
    lengths[WRITABLE] = bytes / 2;
    parts[WRITABLE] = region;
    for (int part = 1; part < PARTS; part++) {
        lengths[part] = bytes / 6 / PAGE * PAGE;
        parts[part] = region + bytes / 2 + (part - 1) * lengths[part];
    }
    for (int part = 0; part < PARTS; part++) fill_region(parts[part], lengths[part], part * part_pages, 1);
    memcpy(parts[CODE] + lengths[CODE] - PAGE, "\xb8\x2a\0\0\0\xc3", 6); /* return 42 */
    grown = map_region(2 * MIB);
    if (mprotect(grown + MIB, MIB, PROT_NONE)) die_errno("mprotect"); /* nobody else's meanwhile */
    fill_region(grown, MIB, 1u << 20, 1);
    settle_under(grown, MIB, bytes / 2 / MIB);
    /* The last part is the youngest: all is away once it is. */
    for (int part = 0; part < PARTS; part++) {
        settle_under(parts[part], lengths[part], bytes / 2 / MIB);
        if (mprotect(parts[part], lengths[part], protections[part])) die_errno("mprotect");
    }
    if (!is("main_left")) go_on(&self);
    start_thread(go_on, &self);
    pthread_exit(NULL);
}

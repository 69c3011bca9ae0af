/* Hazard: another process reads this one's memory: compressed pages are absent there. It may get
 * EFAULT (EIO) or the right bytes by process_vm_readv, /proc/PID/mem and ptrace; never wrong
 * ones; and this program lives on. Writes by process_vm_writev must be seen or refused.
 * Arguments: seed, MiB. Runs itself again as the reader. */
#include "common.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

struct tally {
    uint64_t right, refused;
};

static void check(struct tally *t, ssize_t got, const uint64_t *page, uint64_t id, const char *how) {
    if (got == (ssize_t)PAGE) {
        verify_page(page, id, 3, how);
        t->right++;
    } else if (got > 0) {
        die("%s: page %llu was read in part", how, (unsigned long long)id);
    } else if (errno == EFAULT || errno == EIO) {
        t->refused++;
    } else {
        die_errno(how);
    }
}

static void read_by_ptrace(pid_t victim, const char *remote, size_t pages, struct tally *t) {
    uint64_t page[WORDS], state = seed;
    if (ptrace(PTRACE_ATTACH, victim, NULL, NULL)) skip("ptrace is refused");
    waitpid(victim, NULL, __WALL);
    for (unsigned n = 0; n < 200; n++) {
        size_t i = rng(&state) % pages;
        ssize_t got = PAGE;
        for (unsigned w = 0; w < WORDS && got > 0; w++) {
            errno = 0;
            page[w] = ptrace(PTRACE_PEEKDATA, victim, remote + i * PAGE + w * 8, NULL);
            if (errno) got = -1;
        }
        check(t, got, page, i, "ptrace");
    }
    ptrace(PTRACE_DETACH, victim, NULL, NULL);
}

/* The second process: reads `pages` pages of the parent, then half of them again by other ways. */
static int reader(pid_t victim, char *remote, size_t pages) {
    struct tally t = {0, 0};
    uint64_t page[WORDS];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", victim);
    int memory = open(path, O_RDWR);
    if (memory < 0) die_errno(path);
    for (size_t i = 0; i < pages; i++) {
        struct iovec to = {page, PAGE}, from = {remote + i * PAGE, PAGE};
        check(&t, i % 2 ? process_vm_readv(victim, &to, 1, &from, 1, 0) : pread(memory, page, PAGE, (off_t)from.iov_base),
              page, i, i % 2 ? "process_vm_readv" : "/proc/PID/mem");
        if (i % 16 == 1 && process_vm_writev(victim, &to, 1, &from, 1, 0) < 0 && errno != EFAULT)
            die_errno("process_vm_writev"); /* the same bytes again */
    }
    read_by_ptrace(victim, remote, pages, &t);
    dprintf(2, "reader: %llu right, %llu refused\n", (unsigned long long)t.right, (unsigned long long)t.refused);
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    static size_t bytes; /* static: vfork below */
    bytes = argument(argc, argv, 2, 24) * MIB;
    if (argc > 4) return reader(argument(argc, argv, 3, 0), (char *)strtoul(argv[4], NULL, 0), bytes / PAGE);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 3);
    unsigned rounds = 3;
    for (unsigned round = 0; round < rounds; round++) {
        settle(region, bytes);
        char mib[16], me[16], at[32];
        snprintf(mib, sizeof mib, "%zu", bytes / MIB);
        snprintf(me, sizeof me, "%d", getpid());
        snprintf(at, sizeof at, "%#lx", (unsigned long)region);
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/proc/self/exe", argv[0], argc > 1 ? argv[1] : "1", mib, me, at, NULL);
            _exit(98);
        }
        int status = wait_exit(pid, "reader");
        if (status) return status;
        verify_region(region, bytes, 0, 3, "after the foreign reader");
    }
    printf("OK %u rounds\n", rounds);
}

/* A tracer that follows threads and processes, as strace -f does. Before each write of a page to descriptor 77 it
 * reads that page, while the threads that have come to a call meanwhile stand still. Arguments:
 *   seed trace PROGRAM…   traces the program, and ends as it does
 *   seed traced           the program: fills memory, and writes it page by page */
#include "common.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { PAGES = 8192, OUTPUT = 77, LIMIT_SECONDS = 60 };

static int traced(void) {
    int null = open("/dev/null", O_WRONLY);
    if (dup2(null, OUTPUT) != OUTPUT) die_errno("dup2");
    char *region = map_apart(PAGES * PAGE);
    for (unsigned round = 1; round <= 2; round++) {
        fill_region(region, PAGES * PAGE, 0, 1);
        sleep_ms(700);
        for (size_t n = 0; n < PAGES; n += 8)
            if (write(OUTPUT, region + n * PAGE, PAGE) != (ssize_t)PAGE) die_errno("write");
        verify_region(region, PAGES * PAGE, 0, 1, "in the traced program");
    }
    dprintf(1, "OK traced\n");
    return 7;
}

static unsigned pages_read;

static void look(pid_t thread) {
    static char page[PAGE];
    struct __ptrace_syscall_info call;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call) < 0 || call.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    if (call.entry.nr != SYS_write || call.entry.args[0] != OUTPUT || call.entry.args[2] != PAGE) return;
    struct iovec here = {page, PAGE}, there = {(void *)call.entry.args[1], PAGE};
    ssize_t got = process_vm_readv(thread, &here, 1, &there, 1, 0);
    if (got != (ssize_t)PAGE) die("the tracer read %zd bytes: %s", got, strerror(errno));
    verify_page(page, pages_read * 8 % PAGES, 1, "in the tracer");
    pages_read++;
}

static int trace(char **command) {
    pid_t first = fork();
    if (first < 0) die_errno("fork");
    if (first == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) die_errno("PTRACE_TRACEME");
        raise(SIGSTOP);
        execv(command[0], command);
        die_errno("exec");
    }
    int status;
    if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) die("the program did not stop");
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, first, 0, options)) skip("PTRACE_SETOPTIONS");
    ptrace(PTRACE_SYSCALL, first, 0, 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) die_errno("waitpid");
        if (!WIFSTOPPED(status)) {
            if (thread == first) break;
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) look(thread);
        /* Stops that are the tracer's own, and with which a new thread begins. */
        if (signal == (SIGTRAP | 0x80) || status >> 16 || signal == SIGSTOP) signal = 0;
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
    }
    if (!WIFEXITED(status)) die("the program was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 7) die("the program ended with %d", WEXITSTATUS(status));
    if (pages_read != PAGES / 4) die("the tracer saw %u writes", pages_read);
    printf("OK %u pages read by the tracer\n", pages_read);
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    if (argc > 2 && !strcmp(argv[2], "traced")) return traced();
    if (argc < 4) die("what is to be traced?");
    alarm(LIMIT_SECONDS);
    return trace(argv + 3);
}

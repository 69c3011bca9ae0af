/* A tracer that attaches to all threads of a program, as py-spy and strace -f -p do, and then reads its memory by
 * process_vm_readv. Where it waits for ever it is killed after six seconds. The program goes on, and has all it had.
 * Arguments:
 *   seed                        the program, which starts the tracer
 *   seed attach PID ADDRESS     the tracer */
#include "common.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { PAGES = 8192, KILL_AFTER_MS = 6000 };

static void attach_to_all(const char *program) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/task", program);
    DIR *threads = opendir(path);
    if (!threads) die_errno("/proc/PID/task");
    for (struct dirent *entry; (entry = readdir(threads));) {
        pid_t thread = atoi(entry->d_name);
        if (thread == 0) continue;
        if (ptrace(PTRACE_ATTACH, thread, 0, 0)) skip("PTRACE_ATTACH");
        if (waitpid(thread, 0, __WALL) != thread) die_errno("waitpid");
    }
    closedir(threads);
}

static int attach(const char *program, const char *address) {
    attach_to_all(program);
    static char page[PAGE];
    char *region = (char *)strtoull(address, 0, 16);
    for (size_t n = 0; n < PAGES; n += 8) {
        struct iovec here = {page, PAGE}, there = {region + n * PAGE, PAGE};
        ssize_t got = process_vm_readv(atoi(program), &here, 1, &there, 1, 0);
        if (got != (ssize_t)PAGE) die("the tracer read %zd bytes: %s", got, strerror(errno));
        verify_page(page, n, 1, "in the tracer");
    }
    return 7;
}

/* The child itself says who it is: its parent may be stopped by it at any time. */
static pid_t start(char **command, int say_to) {
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (child == 0) {
        pid_t self = getpid();
        if (write(say_to, &self, sizeof self) != sizeof self) die_errno("write");
        execv(command[0], command);
        die_errno("exec");
    }
    return child;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    if (argc > 4 && !strcmp(argv[2], "attach")) return attach(argv[3], argv[4]);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    char *region = map_apart(PAGES * PAGE);
    fill_region(region, PAGES * PAGE, 0, 1);
    sleep_ms(700);
    char program[16], address[32];
    snprintf(program, sizeof program, "%d", getpid());
    snprintf(address, sizeof address, "%p", (void *)region);
    /* It lives on while the program is stopped; so it must be there before the tracer, which stops a fork too. */
    int whom[2];
    if (pipe(whom)) die_errno("pipe");
    pid_t killer = fork();
    if (killer < 0) die_errno("fork");
    if (killer == 0) {
        pid_t tracer;
        if (read(whom[0], &tracer, sizeof tracer) != sizeof tracer) die_errno("read");
        sleep_ms(KILL_AFTER_MS);
        kill(tracer, SIGKILL);
        _exit(0);
    }
    pid_t tracer = start((char *[]){argv[0], argv[1], "attach", program, address, 0}, whom[1]);
    int status;
    if (waitpid(tracer, &status, 0) != tracer) die_errno("waitpid");
    int waited = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!waited && (!WIFEXITED(status) || WEXITSTATUS(status) != 7)) die("the tracer ended with %#x", status);
    kill(killer, SIGKILL);
    waitpid(killer, 0, 0);
    verify_region(region, PAGES * PAGE, 0, 1, "after it");
    dprintf(1, "OK the tracer %s\n", waited ? "waited for ever" : "read all");
    return 0;
}

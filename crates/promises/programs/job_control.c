/* A program with a process group of its own, as interactive shells are, in the foreground of a terminal.
 *   job_control inner          takes the foreground, stops itself; status 5: it is in the foreground when it goes on
 *   job_control shell LINE...  starts LINE as a job, waits until it has stopped, continues it; its status, 99: it did not
 *                              stop */
#include "common.h"

static void take_foreground(pid_t group) {
    if (tcsetpgrp(0, group)) die_errno("tcsetpgrp");
}

static int inner(void) {
    if (getpgrp() != getpid() && setpgid(0, 0)) die_errno("setpgid");
    take_foreground(getpid());
    raise(SIGSTOP);
    return tcgetpgrp(0) == getpgrp() ? 5 : 6;
}

static int shell(char **line) {
    alarm(30);
    pid_t job = fork();
    if (job < 0) die_errno("fork");
    if (job == 0) {
        if (setpgid(0, 0)) die_errno("setpgid");
        take_foreground(getpid());
        execvp(line[0], line);
        die_errno(line[0]);
    }
    int status;
    if (waitpid(job, &status, WUNTRACED) != job) die_errno("waitpid");
    if (!WIFSTOPPED(status)) return 99;
    take_foreground(getpgrp());
    take_foreground(job);
    if (kill(-job, SIGCONT)) die_errno("kill");
    if (waitpid(job, &status, 0) != job) die_errno("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv) {
    signal(SIGTTOU, SIG_IGN);
    if (argc > 2) return shell(argv + 2);
    return inner();
}

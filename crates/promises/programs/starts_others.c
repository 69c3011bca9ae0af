/* Starts a program in every way there is, and ends as it ended: the pager of a followed run must neither
 * miss it nor break it. Arguments: how, program, its arguments. */
#include "common.h"
#include <spawn.h>

static char **words;

static void *execute(void *unused) {
    (void)unused;
    execv(words[0], words);
    die_errno("execv in a thread");
}

static int status_of(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) die_errno("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* No exec: the child of a process that has no pager yet, with memory of its own. */
static int in_a_child(void) {
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (child > 0) return status_of(child);
    size_t bytes = 48 * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    struct timespec pause = {0, 300000000};
    nanosleep(&pause, NULL);
    for (int pass = 0; pass < 3; pass++) verify_region(region, bytes, 0, 0, "in the child");
    printf("OK in the child\n");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *how = argv[1];
    words = argv + 2;
    if (!strcmp(how, "fork-only")) return in_a_child();
    if (argc < 3) return 2;
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, execute, NULL)) die("no thread");
        pthread_join(thread, NULL);
        return 2;
    }
    pid_t child;
    if (!strcmp(how, "spawn")) {
        extern char **environ;
        if (posix_spawn(&child, words[0], NULL, NULL, words, environ)) die("posix_spawn");
    } else if (!strcmp(how, "vfork")) {
        child = vfork();
        if (child == 0) {
            execv(words[0], words);
            _exit(127);
        }
    } else {
        child = fork();
        if (child == 0) {
            execv(words[0], words);
            _exit(127);
        }
    }
    if (child < 0) die_errno(how);
    return status_of(child);
}

/* Story: in a memory group each process had the group's limit as its own budget, and a child has a copy of its own of
 * what its parent's pager had taken before the fork: children that only read their parent's memory, all at a time, were
 * killed by the kernel, where natively parent and children share it.
 * Arguments: seed, MiB, children that live at a time, how often each reads all of it. Says how much memory of its own the
 * process that holds most had at most. */
#include "common.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 100) * MIB;
    long children = argument(argc, argv, 3, 4);
    long rounds = argument(argc, argv, 4, 2);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    if (managed()) insist_away(press_out(region, bytes, bytes / PAGE / 10 * 9, 20000, 16) > bytes / PAGE / 2, "it");
    pid_t *pids = calloc(children, sizeof *pids);
    for (long n = 0; n < children; n++) {
        pids[n] = fork();
        if (pids[n] < 0) die_errno("fork");
        if (pids[n] == 0) {
            for (long round = 0; round < rounds; round++) verify_region(region, bytes, 0, 1, "in a child");
            _exit(0);
        }
    }
    long lost = 0;
    for (long n = 0; n < children; n++) {
        int status;
        if (waitpid(pids[n], &status, 0) != pids[n]) die_errno("waitpid");
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) lost++;
        else if (status != 0) die("a child ended with %x", status);
    }
    verify_region(region, bytes, 0, 1, "in the parent");
    if (lost > 0) die("%ld of %ld children were killed", lost, children);
    printf("OK %ld children\n", children);
}

/* Hazard: a forked child that may have no userfaultfd (an ordinary user's program that has closed
 * the inherited device) would read zeros from every compressed page. Everything must have been
 * written back into place before the child's own code runs. Arguments: seed, MiB. */
#include "common.h"
#include <sys/syscall.h>
#include <sys/wait.h>

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 32) << 20;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    syscall(SYS_close_range, 3, ~0u, 0);
    for (unsigned round = 0; round < 3; round++) {
        settle(region, bytes);
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            size_t absent = absent_pages(region, bytes);
            if (absent) die("%zu pages were not written back for a child that has no pager", absent);
            verify_region(region, bytes, 0, 1, "in the child");
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child) die_errno("waitpid");
        if (status != 0) die("child: status %#x", status);
        verify_region(region, bytes, 0, 1, "in the parent");
    }
    printf("OK 3 children\n");
}

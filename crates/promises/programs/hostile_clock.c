/* A program that may not read the processor's counter (PR_SET_TSC), as record and replay tools do: the clocks of the vDSO
 * read it. It reads evicted memory, and so does a child. (What it executes would end by SIGSEGV natively: the loader reads
 * the counter.) */
#include "common.h"
#include <sys/prctl.h>

enum { PAGES = 4096 };

static void forbid(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) skip("PR_SET_TSC");
}

static char *filled(void) {
    char *region = map_apart(PAGES * PAGE);
    fill_region(region, PAGES * PAGE, 0, 1);
    settle(region, PAGES * PAGE);
    return region;
}

static void *end(void *unused) { return unused; }

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    char *region = filled();
    forbid();
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (child == 0) {
        verify_region(region, PAGES * PAGE, 0, 1, "in the child");
        exit(7);
    }
    int status;
    if (waitpid(child, &status, 0) != child) die_errno("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) die("the child ended with %#x", status);
    verify_region(region, PAGES * PAGE, 0, 1, "in the parent");
    pthread_t thread;
    if (pthread_create(&thread, 0, end, 0)) die("pthread_create");
    pthread_join(thread, 0);
    printf("OK without the counter\n");
    exit(0);
}

/* A sandbox in a user namespace of its own wants to be a process of one thread, as browsers' are. It looks at the
 * links of /proc/self/task, and verifies what it has inherited. Arguments: seed, how:
 *   clone     clone(CLONE_NEWUSER)
 *   number    syscall(SYS_clone, CLONE_NEWUSER)
 *   executed  the same, and the child executes itself without the device, so that it can have no pager */
#include "common.h"
#include <sys/stat.h>

enum { PAGES = 4096, STACK = 256 << 10 };
static char *region;

static void alone(const char *who) {
    struct stat tasks;
    if (stat("/proc/self/task", &tasks)) die_errno("/proc/self/task");
    if (tasks.st_nlink != 3) die("%s has %d threads", who, (int)tasks.st_nlink - 2);
}

static int sandbox(void *self) {
    alone("the sandbox");
    if (self) {
        close_range(3, ~0u, 0);
        execl("/proc/self/exe", "hostile_alone", "1", "look", (char *)0);
        die_errno("exec");
    }
    verify_region(region, PAGES * PAGE, 0, 1, "in the sandbox");
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    const char *how = argc > 2 ? argv[2] : "clone";
    if (!strcmp(how, "look")) {
        alone("what the sandbox executes");
        return 0;
    }
    int executes = !strcmp(how, "executed");
    region = map_apart(PAGES * PAGE);
    fill_region(region, PAGES * PAGE, 0, 1);
    settle(region, PAGES * PAGE);
    char *stack = map_region(STACK);
    pid_t child;
    if (strcmp(how, "number"))
        child = clone(sandbox, stack + STACK, CLONE_NEWUSER | SIGCHLD, executes ? argv[0] : 0);
    else if (!(child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)))
        _exit(sandbox(0));
    if (child < 0) skip("CLONE_NEWUSER");
    int status = wait_exit(child, "the sandbox");
    if (status) die("the sandbox ended with %d", status);
    verify_region(region, PAGES * PAGE, 0, 1, "beside the sandbox");
    printf("OK\n");
}

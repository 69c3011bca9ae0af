/* What only a process of one thread may do, or one whose threads share no working directory: a new user namespace, and
 * entering mount, user and time namespaces. Its memory is as before, and away again later.
 * Arguments: seed, how. */
#include "common.h"
#include <sys/stat.h>

static const size_t BYTES = 16 << 20;

/* A descriptor of the namespace of a child that has one of its own. */
static int other_namespace(int kind, const char *name) {
    int ready[2], end[2];
    char byte, path[64];
    if (pipe(ready) || pipe(end)) die_errno("pipe");
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (!child) {
        close(end[1]);
        byte = unshare(kind) ? 'n' : 'y';
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        while (read(end[0], &byte, 1) > 0) {}
        _exit(0);
    }
    close(end[0]);
    if (read(ready[0], &byte, 1) != 1 || byte != 'y') skip("the child has no namespace of its own");
    snprintf(path, sizeof path, "/proc/%d/ns/%s", child, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) die_errno(path);
    close(end[1]);
    waitpid(child, NULL, 0);
    return fd;
}

static void *idle(void *unused) {
    sleep_ms(60000);
    return unused;
}

/* Until the pager, whose first thread waits with starting, makes others. */
static void await_threads(void) {
    const nlink_t OTHER_LINKS = 2, WAITING = OTHER_LINKS + 2;
    struct stat tasks;
    for (uint64_t deadline = now_ms() + 5000; now_ms() < deadline;) {
        if (stat("/proc/self/task", &tasks)) die_errno("/proc/self/task");
        if (tasks.st_nlink > WAITING) return;
    }
    die("no pager starts");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    const char *how = argc > 2 ? argv[2] : "";
    int fd = -1;
    if (!strcmp(how, "enter_mount")) fd = other_namespace(CLONE_NEWNS, "mnt");
    if (!strcmp(how, "enter_user")) fd = other_namespace(CLONE_NEWUSER, "user");
    if (!strcmp(how, "enter_time")) fd = other_namespace(0x80 /* CLONE_NEWTIME */, "time_for_children");
    char *region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    if (!strcmp(how, "user_while_starting")) await_threads();
    else settle(region, BYTES);
    if (!strncmp(how, "user", 4) && unshare(CLONE_NEWUSER)) die_errno("unshare(CLONE_NEWUSER)");
    if (!strcmp(how, "mount") && unshare(CLONE_NEWUSER | CLONE_NEWNS)) die_errno("unshare of user and mount");
    if (!strcmp(how, "among_threads")) {
        start_thread(idle, NULL);
        if (!unshare(CLONE_NEWUSER) || errno != EINVAL) die("a process of two threads has entered a user namespace");
    }
    if (fd >= 0 && setns(fd, 0)) die_errno("setns");
    verify_region(region, BYTES, 0, 1, "after");
    /* The pager is there again: managed memory goes away as before. */
    fill_region(region, BYTES, 0, 2);
    settle(region, BYTES);
    verify_region(region, BYTES, 0, 2, "at the end");
    settle(region, BYTES);
    verify_region(region, BYTES, 0, 2, "once more");
    printf("OK %s\n", how);
}

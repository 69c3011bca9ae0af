/* Hazard: vfork, posix_spawn and clone(CLONE_VM) children run in the parent's address space until
 * they exec: the same pager must serve them while their parent waits. Arguments, environment
 * and paths lie in compressed memory too: execve reads them in the kernel.
 * Arguments: seed, MiB, rounds. */
#include "common.h"
#include <spawn.h>

static char *region;
static size_t bytes;

struct errand {
    uint64_t first, step, version, read;
};

static void touch(struct errand *e) {
    for (size_t i = e->first; i < bytes / PAGE; i += e->step, e->read++) {
        verify_page(region + i * PAGE, i, e->version, "child in the parent's memory");
        if (i % 3 == 0) fill_page(region + i * PAGE, i, e->version); /* dirties it */
    }
}

static int cloned(void *context) {
    touch(context);
    return 0;
}

static char *path, **arguments, **environment; /* a page for each list, and one for each word */
static size_t cold_strings;
enum { LISTS = 2, STRINGS = 6 };

/* Waits until the region is away, and most often what the kernel will read is, too. Libc may have counted the lists
 * itself by then, the words it never reads. */
static void grow_cold(void) {
    settle(region, bytes);
    settle_whole(path, STRINGS * PAGE);
    cold_strings += absent_pages(path, STRINGS * PAGE) == STRINGS;
}

static void vfork_and_exec(struct errand *e) {
    pid_t pid = vfork();
    if (pid < 0) die_errno("vfork");
    if (pid == 0) {
        touch(e);
        execve(path, arguments, environment);
        _exit(99);
    }
    if (wait_exit(pid, "vfork child")) die("vfork child did not exec its cold arguments");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 24) * MIB;
    long rounds = argument(argc, argv, 3, 4);
    region = map_region(bytes);
    fill_region(region, bytes, 0, 5);
    char *apart = map_apart(64 * PAGE);
    const char *words[] = {"/bin/sh", "-c", "test \"$1$COLD\" = cold-argument-too", "sh", "cold-argument", "COLD=-too"};
    arguments = (char **)apart, environment = (char **)(apart + PAGE), path = apart + LISTS * PAGE;
    for (size_t i = 0; i < STRINGS; i++) {
        char *word = strcpy(path + i * PAGE, words[i]);
        if (i < STRINGS - 1) arguments[i] = word;
        else environment[0] = word;
    }
    char *stack = map_region(64 * PAGE);
    for (long round = 0; round < rounds; round++) {
        grow_cold();
        struct errand e = {0, 7, 5, 0};
        vfork_and_exec(&e);
        grow_cold();
        pid_t pid;
        int error = posix_spawn(&pid, path, NULL, NULL, arguments, environment);
        if (error) die("posix_spawn: %s", strerror(error));
        if (wait_exit(pid, "spawned child")) die("the spawned child saw other arguments");
        settle(region, bytes);
        e = (struct errand){1, 5, 5, 0};
        pid = clone(cloned, stack + 64 * PAGE, CLONE_VM | CLONE_VFORK | SIGCHLD, &e);
        if (pid < 0) die_errno("clone");
        if (wait_exit(pid, "cloned child")) return 1;
        if (e.read != (bytes / PAGE - 1 + 4) / 5) die("the cloned child's work is lost: %llu", (unsigned long long)e.read);
        if (system("exit 7") != 7 << 8) die("system() lost its status");
        verify_region(region, bytes, 0, 5, "parent after its children");
    }
    /* At the same time as its parent, which it might outlive: the pager leaves. */
    settle(region, bytes);
    struct errand e = {2, 5, 5, 0};
    pid_t pid = clone(cloned, stack + 64 * PAGE, CLONE_VM | SIGCHLD, &e);
    if (pid < 0) die_errno("clone");
    verify_region(region + bytes / 2, bytes / 2, bytes / 2 / PAGE, 5, "parent beside a child");
    if (wait_exit(pid, "cloned child")) return 1;
    if (managed() && absent_pages(region, bytes)) die("pages are away beside a child that shares them");
    verify_region(region, bytes, 0, 5, "parent after the last child");
    insist_away(cold_strings, "path, arguments and environment");
    printf("OK %ld rounds of vfork, posix_spawn, clone, all that exec reads away %zu times\n", rounds, cold_strings);
}

/* Hazard: memory that a program keeps from its children (MADV_DONTFORK) is compressed like other
 * memory, though the pager marks all it manages in the same way. Whose mark it is must not be
 * mixed up: when a part is inherited again, when the memory moves, when other memory comes to lie
 * at its place, in the child, and in the child's children. Arguments: seed, rounds. */
#include "common.h"

enum { PART = 4 << 20, PARTS = 4, BYTES = PARTS * PART };
enum { FIRST = 0, AGAIN = 1, NEW = 2, MOVED = 3 };

static char *kept;
static uint64_t version;

static int mapped(const char *at) {
    unsigned char present;
    return mincore((void *)at, PAGE, &present) == 0;
}

static void map_at(char *at) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(at, PART, PROT_READ | PROT_WRITE, flags, -1, 0) != at) die_errno("mmap at a fixed place");
}

static uint64_t id(int part) { return part * 10000; }

static void verify_part(int part, const char *when) {
    verify_region(kept + part * PART, PART, id(part), version, when);
}

static int grandchild(void) {
    verify_part(FIRST, "grandchild: what the child has mapped");
    verify_part(AGAIN, "grandchild: DOFORK part");
    if (mapped(kept + MOVED * PART)) die("grandchild: the DONTFORK part is mapped");
    return 0;
}

static int child(const char *moved) {
    if (mapped(kept) || mapped(kept + PART / 2)) die("child: the DONTFORK part is mapped");
    if (mapped(moved) || mapped(moved + PART - PAGE)) die("child: the moved DONTFORK part is mapped");
    verify_part(AGAIN, "child: DOFORK part");
    verify_part(NEW, "child: new memory at the place of a DONTFORK part");
    map_at(kept);
    fill_region(kept, PART, id(FIRST), version);
    settle(kept, PART);
    pid_t pid = fork();
    if (pid == 0) _exit(grandchild());
    if (wait_exit(pid, "grandchild")) return 1;
    verify_part(FIRST, "child, after a fork");
    return 0;
}

/* A child made behind libc's back sees the right bytes, or nothing at all. */
static void clone_and_read(void) {
    pid_t pid = raw_clone();
    if (pid < 0) die_errno("clone");
    if (pid == 0) {
        for (size_t i = 0; i < PART / PAGE; i++)
            if (first_wrong(kept + AGAIN * PART + i * PAGE, id(AGAIN) + i, version) >= 0) syscall(SYS_exit_group, 3);
        syscall(SYS_exit_group, 0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid) die_errno("waitpid");
    int refused = WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
    if (!refused && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        die("a cloned child saw wrong bytes in the DOFORK part (status %#x)", status);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 3);
    for (long round = 0; round < rounds; round++) {
        version = round;
        kept = map_region(BYTES);
        /* In odd rounds parts are out already when the advice comes. */
        if (round % 2 == 0 && madvise(kept, BYTES, MADV_DONTFORK)) die_errno("madvise");
        for (int part = 0; part < PARTS; part++) fill_region(kept + part * PART, PART, id(part), version);
        for (int part = 0; part < PARTS; part++) settle(kept + part * PART, PART);
        if (round % 2 == 1 && madvise(kept, BYTES, MADV_DONTFORK)) die_errno("madvise");
        if (madvise(kept + AGAIN * PART, PART, MADV_DOFORK)) die_errno("madvise");
        if (munmap(kept + NEW * PART, PART)) die_errno("munmap");
        map_at(kept + NEW * PART);
        fill_region(kept + NEW * PART, PART, id(NEW), version);
        char *place = map_region(PART);
        char *moved = mremap(kept + MOVED * PART, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (moved == MAP_FAILED) die_errno("mremap");
        settle(kept + NEW * PART, PART);
        settle(kept + AGAIN * PART, PART);
        clone_and_read();
        pid_t pid = fork();
        if (pid == 0) _exit(child(moved));
        if (wait_exit(pid, "child")) return 1;
        verify_part(FIRST, "parent: DONTFORK part");
        verify_part(AGAIN, "parent: DOFORK part");
        verify_part(NEW, "parent: new memory");
        verify_region(moved, PART, id(MOVED), version, "parent: moved DONTFORK part");
        if (munmap(moved, PART) || munmap(kept, MOVED * PART)) die_errno("munmap");
    }
    printf("OK %ld rounds\n", rounds);
}

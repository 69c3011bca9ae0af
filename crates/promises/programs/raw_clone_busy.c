/* Hazard: children made by an instruction of the program's own, while other threads read and write compressed memory:
 * some pages are at that moment being restored, compressed or moved out. Each child is a whole process: it changes its
 * address space while the pager fills it, allocates, forks through libc and behind it, and ends with its exit handlers
 * run. Where the pager is told of forks (root) all of it must be as natively.
 * Arguments: seed, MiB, rounds, threads. */
#include "common.h"

static char *region;
static size_t pages;
static _Atomic int stop;
static long shared_pages;

/* Reads pages of the first part, and writes what is there again, so that the pager has work on both ways. */
static void *toucher(void *number) {
    uint64_t state = seed + (uintptr_t)number;
    while (!stop) {
        size_t i = rng(&state) % shared_pages;
        verify_page(region + i * PAGE, i, 1, "a thread of the parent");
        if (i % 3 == 0) fill_page(region + i * PAGE, i, 1);
    }
    return NULL;
}

static void await(pid_t pid, const char *what) {
    int status;
    if (waitpid(pid, &status, 0) != pid) die_errno(what);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) die("%s ended with status %#x", what, status);
}

static void verify_all(size_t first, size_t end, const char *who) {
    for (size_t i = first; i < end; i++) verify_page(region + i * PAGE, i, 1, who);
}

/* What is behind the threads' part is changed in the midst of being filled. */
static void child(uint64_t state, int depth) {
    size_t first = shared_pages, eighth = (pages - first) / 8;
    char *moving = region + first * PAGE, *dropped = region + (first + 2 * eighth) * PAGE;
    char *unmapped = region + (first + 4 * eighth) * PAGE;
    size_t bytes = eighth * PAGE;
    if (rng(&state) % 2) verify_page(region + (pages - 1) * PAGE, pages - 1, 1, "child, its last page");
    if (madvise(dropped, bytes, MADV_DONTNEED)) die_errno("madvise");
    char *moved = mremap(moving, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, unmapped);
    if (moved != unmapped) die_errno("mremap");
    if (munmap(unmapped + bytes, bytes)) die_errno("munmap");
    if (depth < 2 && rng(&state) % 2) {
        long pid = raw_clone();
        if (pid < 0) die("clone: error %ld", -pid);
        if (pid == 0) {
            verify_all(0, first, "grandchild");
            for (size_t i = 0; i < eighth; i++) verify_page(moved + i * PAGE, first + i, 1, "grandchild, moved");
            verify_zero_region(dropped, bytes, "grandchild, dropped");
            _exit(0);
        }
        await(pid, "the grandchild");
    }
    verify_all(0, first, "child");
    for (size_t i = 0; i < eighth; i++) verify_page(moved + i * PAGE, first + i, 1, "child, moved");
    verify_zero_region(dropped, bytes, "child, dropped");
    verify_all(first + 6 * eighth, pages, "child, behind");
    pid_t forked = fork();
    if (forked < 0) die_errno("fork");
    if (forked == 0) {
        verify_all(0, first, "child's child by libc");
        _exit(0);
    }
    await(forked, "the child's child by libc");
    char *buffer = malloc(3 * MIB);
    fill_region(buffer, 3 * MIB, 7, 7);
    verify_region(buffer, 3 * MIB, 7, 7, "memory that a child allocates");
    free(buffer);
    exit(0);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    pages = argument(argc, argv, 2, 32) * MIB / PAGE;
    long rounds = argument(argc, argv, 3, 8), threads = argument(argc, argv, 4, 2);
    shared_pages = pages / 2;
    region = map_region(pages * PAGE);
    fill_region(region, pages * PAGE, 0, 1);
    settle(region, pages * PAGE);
    pthread_t all[8];
    for (long n = 0; n < threads && n < 8; n++)
        if (pthread_create(&all[n], NULL, toucher, (void *)n)) die("pthread_create");
    for (long round = 0; round < rounds; round++) {
        sleep_ms(30);
        long pid = raw_clone();
        if (pid < 0) die("clone: error %ld", -pid);
        if (pid == 0) {
            alarm(60);
            child(seed + round, 0);
        }
        await(pid, "the child");
    }
    stop = 1;
    for (long n = 0; n < threads && n < 8; n++) pthread_join(all[n], NULL);
    verify_region(region, pages * PAGE, 0, 1, "parent at the end");
    printf("OK %ld children\n", rounds);
}

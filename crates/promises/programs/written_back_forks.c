/* Forks that come to nothing: some fail, and some children are killed before they have done anything. What they could
 * have read stays in the file of --writeback only as long as one of them may be there.
 * Arguments: seed, MiB; then 1 for forks that fail, 0 for children that are killed. */
#include "common.h"
#include <sys/stat.h>

static char *region;
static size_t pages;
static int file = -1;

/* The file has no name any more, and a high number. */
static void find_file(void) {
    for (int number = 3; number < 1024; number++) {
        char link[64], to[512];
        snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        ssize_t length = readlink(link, to, sizeof to - 1);
        if (length <= 0) continue;
        to[length] = 0;
        if (strstr(to, "written-back")) file = number;
    }
    if (file < 0) die("no file of --writeback is inherited");
}

static size_t bytes_of_file(void) {
    struct stat found;
    if (fstat(file, &found)) die_errno("fstat");
    return (size_t)found.st_blocks * 512;
}

/* Three eighths of each page are random. */
static void put_page(size_t id, uint64_t version) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i % 8 < 5 ? mix(seed + id * 0xC2B2AE3D27D4EB4Fu + version * 0x165667B19E3779F9u + i) : id ^ version;
}

static void check(size_t id, uint64_t version) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t expected =
            i % 8 < 5 ? mix(seed + id * 0xC2B2AE3D27D4EB4Fu + version * 0x165667B19E3779F9u + i) : id ^ version;
        if (words[i] != expected) die("page %zu word %u of version %llu", id, i, (unsigned long long)version);
    }
}

static void fork_in_vain(int fails) {
    pid_t child = fork();
    if (fails) {
        if (child == 0) _exit(1);
        if (child > 0) die("a fork where no process can be made has succeeded");
        return;
    }
    if (child < 0) die_errno("fork");
    if (child == 0)
        for (;;) pause();
    kill(child, SIGKILL);
    if (waitpid(child, NULL, 0) != child) die_errno("waitpid");
}

/* No process can be made in a namespace whose first process has ended. */
static void make_forks_fail(void) {
    if (unshare(CLONE_NEWPID)) skip("unshare");
    pid_t first = fork();
    if (first < 0) die_errno("the first fork");
    if (first == 0) _exit(0);
    if (waitpid(first, NULL, 0) != first) die_errno("waitpid");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB;
    int fails = argument(argc, argv, 3, 1);
    pages = bytes / PAGE;
    find_file();
    region = map_region(bytes);
    for (size_t id = 0; id < pages; id++) put_page(id, 0);
    uint64_t version = 0, until = now_ms() + 60000;
    while (bytes_of_file() < bytes / 4) {
        if (now_ms() > until) die("only %zu bytes are written back", bytes_of_file());
        for (size_t id = 0; id < pages; id += 3) check(id, version);
    }
    if (fails) make_forks_fail();
    until = now_ms() + 90000;
    for (unsigned n = 0; n < 30; n++) {
        fork_in_vain(fails);
        /* What is written back between two forks is kept for each. */
        for (size_t id = n % 10; id < pages; id += 10) check(id, version);
    }
    size_t kept = bytes_of_file(), most = kept;
    /* All of it is replaced, again and again. Where nothing is given up the file never holds less than before. */
    do {
        version++;
        for (size_t id = 0; id < pages; id++) put_page(id, version);
        for (size_t id = 0; id < pages; id += 7) check(id, version);
        size_t now = bytes_of_file();
        if (now > most) most = now;
        if (now * 2 <= kept) {
            printf("OK %zu MiB after the forks, %zu at most, %zu after %llu rounds\n", kept / MIB, most / MIB,
                   now / MIB, (unsigned long long)version);
            return 0;
        }
    } while (now_ms() < until);
    die("the file holds %zu MiB, and has held %zu after the forks", bytes_of_file() / MIB, kept / MIB);
}

/* Hazard: shared memory and private file pages are not the pager's: an evicted private file page
 * would come back as the file's, a shared one would be lost to its other owners. Shared
 * anonymous memory, a memfd and a private file mapping (half of it written) must keep their
 * bytes, sharing must stay sharing over fork. Arguments: seed, rounds. */
#include "common.h"

enum { BYTES = 8 << 20 };

static void verify_all(const char *shared, const char *memfd, const char *file, uint64_t version, const char *who) {
    verify_region(shared, BYTES, 0, version, who);
    verify_region(memfd, BYTES, 5000, version, who);
    for (size_t i = 0; i < BYTES / PAGE; i++)
        verify_page(file + i * PAGE, 10000 + i, i % 2 ? version : 1000, i % 2 ? "written file page" : "clean file page");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t rounds = argument(argc, argv, 2, 5);
    int prot = PROT_READ | PROT_WRITE;
    char *shared = mmap(NULL, BYTES, prot, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int memory = memfd_create("shared", 0);
    FILE *disk = tmpfile();
    if (!disk || memory < 0 || ftruncate(memory, BYTES) || ftruncate(fileno(disk), BYTES)) die_errno("files");
    char *memfd = mmap(NULL, BYTES, prot, MAP_SHARED, memory, 0);
    char *original = mmap(NULL, BYTES, prot, MAP_SHARED, fileno(disk), 0);
    fill_region(original, BYTES, 10000, 1000);
    munmap(original, BYTES);
    char *file = mmap(NULL, BYTES, prot, MAP_PRIVATE, fileno(disk), 0);
    char *cold = map_region(2 * BYTES);
    fill_region(cold, 2 * BYTES, 20000, 1);
    for (uint64_t round = 0; round < rounds; round++) {
        fill_region(shared, BYTES, 0, round);
        fill_region(memfd, BYTES, 5000, round);
        for (size_t i = 1; i < BYTES / PAGE; i += 2) fill_page(file + i * PAGE, 10000 + i, round);
        settle(cold, 2 * BYTES);
        sleep_ms(100);
        verify_all(shared, memfd, file, round, "parent");
        pid_t pid = fork();
        if (pid == 0) {
            verify_all(shared, memfd, file, round, "child");
            fill_region(shared, BYTES, 0, round + 100);
            fill_region(memfd, BYTES, 5000, round + 100);
            fill_region(file, BYTES, 10000, round + 100); /* private: the parent must not see it */
            _exit(0);
        }
        if (wait_exit(pid, "child")) return 1;
        verify_region(shared, BYTES, 0, round + 100, "parent sees its child's shared write");
        verify_region(memfd, BYTES, 5000, round + 100, "parent sees its child's memfd write");
        for (size_t i = 0; i < BYTES / PAGE; i++)
            verify_page(file + i * PAGE, 10000 + i, i % 2 ? round : 1000, "parent's private file page");
        verify_region(cold, 2 * BYTES, 20000, 1, "anonymous memory");
    }
    printf("OK %llu rounds\n", (unsigned long long)rounds);
}

/* Hostile: a program that has all it may have. Maps and fills a MiB at a time until it is refused or has as much as it
 * wants, verifies all of it, and says how much that was; of what its process has mapped it says how much
 * counts as data, and how much a core file would hold, its own and a forked child's. Arguments: seed, MiB wanted. */
#include "common.h"

enum { MOST = 1024 };

/* Kilobytes of data (private, writable), and of what of it goes into a core file. */
static void measure(size_t *data, size_t *dumped) {
    FILE *maps = fopen("/proc/thread-self/smaps", "r");
    char line[512], mode[5];
    size_t kib = 0, writable = 0, start, end;
    *data = *dumped = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%zx-%zx %4s", &start, &end, mode) == 3) {
            writable = !strncmp(mode + 1, "w", 1) && mode[3] == 'p';
            kib = (end - start) / 1024;
        } else if (writable && !strncmp(line, "VmFlags:", 8)) {
            *data += kib;
            *dumped += strstr(line, " dd") ? 0 : kib;
        }
    if (maps) fclose(maps);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t wanted = argument(argc, argv, 2, 32), n = 0, data, dumped, child_dumped;
    static char *pieces[MOST];
    for (; n < wanted && n < MOST; n++) {
        pieces[n] = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[n] == MAP_FAILED) break;
        fill_region(pieces[n], MIB, n * 256, 1);
    }
    sleep_ms(managed() ? 500 : 1);
    size_t away = 0;
    for (size_t i = 0; i < n; i++) away += absent_pages(pieces[i], MIB);
    insist_away(away, "what the program has");
    measure(&data, &dumped);
    int ends[2];
    if (pipe(ends)) die_errno("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        measure(&data, &dumped);
        _exit(write(ends[1], &dumped, sizeof dumped) != sizeof dumped);
    }
    if (pid < 0 || wait_exit(pid, "child") || read(ends[0], &child_dumped, sizeof dumped) != sizeof dumped)
        die("a child failed");
    for (size_t i = 0; i < n; i++) verify_region(pieces[i], MIB, i * 256, 1, "at the limit");
    printf("OK had %zu data %zu dumped %zu child %zu\n", n, data / 1024, dumped / 1024, child_dumped / 1024);
}

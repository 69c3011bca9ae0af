/* Hostile: memory that lies directly behind the data of libraries, so that the kernel joins the two to one mapping: what
 * may be evicted is part of it and what may not, the pager's own data for one. Arguments: seed, milliseconds. */
#include "common.h"

enum { HOLES = 64 };
static struct { char *start; size_t bytes; } holes[HOLES];

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t deadline = now_ms() + argument(argc, argv, 2, 1000);
    char line[512], mode[5];
    size_t n = 0, file_end = 0, data_end = 0, start, end, inode, away = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && n < HOLES && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%zx-%zx %4s %*s %*s %zu", &start, &end, mode, &inode) != 4) continue;
        if (data_end && start > data_end) {
            holes[n].start = (char *)data_end;
            holes[n++].bytes = start - data_end < 8 * MIB ? start - data_end : 8 * MIB;
        }
        data_end = !inode && start == file_end && !strcmp(mode, "rw-p") ? end : 0;
        file_end = inode ? end : 0;
    }
    if (maps) fclose(maps);
    size_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        if (mmap(holes[i].start, holes[i].bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) holes[i].bytes = 0;
        fill_region(holes[i].start, holes[i].bytes, i << 20, 1);
        filled += holes[i].bytes;
    }
    char *other = map_apart(4 * MIB);
    fill_region(other, 4 * MIB, 99ull << 20, 1);
    do {
        sleep_ms(50);
        away += absent_pages(other, 4 * MIB);
        pid_t pid = fork();
        if (pid == 0) {
            for (size_t i = 0; i < n; i++) verify_region(holes[i].start, holes[i].bytes, i << 20, 1, "child");
            _exit(0);
        }
        if (pid < 0 || wait_exit(pid, "child")) die("a child failed");
        for (size_t i = 0; i < n; i++) verify_region(holes[i].start, holes[i].bytes, i << 20, 1, "behind data");
        verify_region(other, 4 * MIB, 99ull << 20, 1, "other");
    } while (now_ms() < deadline);
    insist_away(away, "other memory");
    printf("OK %zu KiB behind the data of %zu files\n", filled / 1024, n);
}

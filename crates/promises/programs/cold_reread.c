/* The plain case: memory is written, grows cold, and is read again. Also reads cold memory
 * through system calls, which is what a user-mode-only pager cannot serve.
 * Arguments: seed, MiB, rounds. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long rounds = argument(argc, argv, 3, 2);
    char *region = map_region(bytes);
    int pipes[2];
    size_t read_away = 0, written_away = 0;
    if (pipe(pipes)) die_errno("pipe");
    for (long round = 0; round < rounds; round++) {
        fill_region(region, bytes, 0, round);
        settle(region, bytes);
        for (size_t i = 0; i < bytes / PAGE; i += 16) { /* the kernel reads one cold page, writes another */
            read_away += absent_pages(region + i * PAGE, PAGE);
            written_away += absent_pages(region + (i + 8) * PAGE, PAGE);
            if (write(pipes[1], region + i * PAGE, PAGE) != (ssize_t)PAGE) die_errno("write of a cold page");
            if (read(pipes[0], region + (i + 8) * PAGE, PAGE) != (ssize_t)PAGE) die_errno("read into a cold page");
            verify_page(region + (i + 8) * PAGE, i, round, "page through a pipe");
            fill_page(region + (i + 8) * PAGE, i + 8, round);
        }
        verify_region(region, bytes, 0, round, "cold again");
    }
    insist_away(read_away, "what the kernel reads");
    insist_away(written_away, "what the kernel writes");
    printf("OK %zu MiB, %ld rounds\n", bytes / MIB, rounds);
}

/* Hazard: a pipe may still refer to a frame that was moved out to staging. If the pager writes
 * into that frame again, the reader of the pipe sees the new bytes. The region is spliced into
 * a pipe and kept there while it is evicted, read back and other memory is churned through the
 * pager; then the pipe must give the bytes as they were spliced.
 * Arguments: seed, rounds. */
#include "common.h"
#include <sys/uio.h>

enum { PAGES = 256 };

static void read_all(int fd, char *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(fd, to + done, bytes - done);
        if (n <= 0) die_errno("read of the pipe");
        done += n;
    }
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 6);
    int pipes[2];
    if (pipe(pipes) || fcntl(pipes[1], F_SETPIPE_SZ, PAGES * PAGE) < 0) die_errno("pipe");
    char *region = map_apart(PAGES * PAGE);
    char *seen = map_region(PAGES * PAGE);
    size_t spliced_pages = 0;
    for (long round = 0; round < rounds; round++) {
        fill_region(region, PAGES * PAGE, 0, round);
        struct iovec v = {region, PAGES * PAGE};
        ssize_t spliced = vmsplice(pipes[1], &v, 1, SPLICE_F_NONBLOCK);
        if (spliced <= 0 || spliced % PAGE) die_errno("vmsplice");
        settle(region, PAGES * PAGE);
        verify_region(region, PAGES * PAGE, 0, round, "region after eviction");
        char *other = map_region(24 * MIB);
        fill_region(other, 24 * MIB, 1 << 20, round);
        settle_under(other, 24 * MIB, 0);
        verify_region(other, 24 * MIB, 1 << 20, round, "other memory");
        munmap(other, 24 * MIB);
        read_all(pipes[0], seen, spliced);
        verify_region(seen, spliced, 0, round, "bytes out of the pipe");
        spliced_pages += spliced / PAGE;
    }
    printf("OK %ld rounds, %zu pages spliced\n", rounds, spliced_pages);
}

/* Hazard: something refers to a small part of a huge page: a pipe that nobody reads, as with vmsplice or MSG_ZEROCOPY to a
 * peer that has stalled, or a driver. The kernel cannot split such a page, and UFFDIO_MOVE of it tries for ever. All other
 * pages must come back meanwhile, and memory be mapped and unmapped; once the reference is gone all is as before.
 * Half of the huge pages are mapped by single pages (mprotect has split the mapping), the others as they are.
 * Arguments: seed, MiB, rounds. */
#include "common.h"
#include <sys/uio.h>

static const size_t HUGE = 2 * MIB;

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 16) * MIB, huge = bytes / HUGE, others = 24 * MIB;
    long rounds = argument(argc, argv, 3, 3);
    uint64_t longest_ms = 0;
    int pipes[2];
    if (pipe(pipes)) die_errno("pipe");
    char *region = map_region(bytes + HUGE), *seen = map_region(PAGE);
    region += -(uintptr_t)region % HUGE;
    if (huge == 0 || huge > 16) die("arguments");
    if (madvise(region, bytes, MADV_HUGEPAGE)) skip("no transparent huge pages");
    char *other = map_region(others);
    for (long round = 0; round < rounds; round++) {
        fill_region(region, bytes, 0, round);
        if (round == 0 && huge_kib() <= 0) skip("the kernel gives no transparent huge pages");
        fill_region(other, others, 1 << 20, round);
        for (size_t h = 0; h < huge; h++) {
            char *one = region + h * HUGE;
            if (h % 2 && (mprotect(one + HUGE / 2, PAGE, PROT_READ) || mprotect(one + HUGE / 2, PAGE, PROT_READ | PROT_WRITE)))
                die_errno("mprotect");
            struct iovec v = {one + 7 * PAGE, PAGE};
            if (vmsplice(pipes[1], &v, 1, 0) != (ssize_t)PAGE) die_errno("vmsplice");
        }
        /* The pager finds both cold, and must come by what it cannot take. */
        for (int again = 0; again < 4; again++) {
            settle(other, others);
            uint64_t began = now_ms();
            verify_region(other, others, 1 << 20, round, "other memory");
            verify_region(region, bytes, 0, round, "huge pages that something refers to");
            char *fresh = map_region(MIB);
            fill_region(fresh, MIB, 1 << 21, again);
            munmap(fresh, MIB);
            if (now_ms() - began > longest_ms) longest_ms = now_ms() - began;
        }
        for (size_t h = 0; h < huge; h++) {
            for (size_t done = 0; done < PAGE;) {
                ssize_t n = read(pipes[0], seen + done, PAGE - done);
                if (n <= 0) die_errno("read of the pipe");
                done += n;
            }
            verify_page(seen, h * 512 + 7, round, "bytes out of the pipe");
        }
        verify_region(region, bytes, 0, round, "huge pages");
    }
    printf("OK %ld rounds, %zu huge pages, longest %llu ms\n", rounds, huge, (unsigned long long)longest_ms);
}

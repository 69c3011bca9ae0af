/* Hazard: io_uring fixed buffers stay pinned for as long as they are registered: the kernel
 * reads and writes those frames, whatever the page table says later. They must not be moved
 * (UFFDIO_MOVE answers EBUSY). After a while under the pager the program writes new content,
 * which the kernel must send, and the kernel receives content, which the program must see.
 * Arguments: seed, rounds. Writes fixed_buffers.data. */
#include "ring.h"
#include <sys/uio.h>

enum { BUFFERS = 8 };
static const size_t BUFFER_BYTES = 256 * 1024;

static void transfer(int operation, int file, char *buffer, unsigned index) {
    struct io_uring_sqe entry = {
        .opcode = operation,
        .fd = file,
        .off = index * BUFFER_BYTES,
        .addr = (uintptr_t)buffer,
        .len = BUFFER_BYTES,
        .buf_index = index,
    };
    int result = submit(&entry);
    if (result != (int)BUFFER_BYTES) die("fixed transfer of buffer %u: result %d", index, result);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 4);
    set_up_ring();
    size_t bytes = BUFFERS * BUFFER_BYTES, pages = BUFFER_BYTES / PAGE;
    char *region = map_region(bytes);
    char *cold = map_region(24 * MIB);
    char *seen = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    fill_region(cold, 24 * MIB, 1 << 20, 0);
    struct iovec buffers[BUFFERS];
    for (unsigned i = 0; i < BUFFERS; i++) buffers[i] = (struct iovec){region + i * BUFFER_BYTES, BUFFER_BYTES};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, BUFFERS)) skip("no fixed buffers");
    int file = open("fixed_buffers.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) die_errno("fixed_buffers.data");
    for (long round = 0; round < rounds; round++) {
        settle(cold, 24 * MIB);
        sleep_ms(300);
        verify_region(region, bytes, 0, round * 2, "fixed buffers after eviction");
        size_t absent = absent_pages(region, bytes);
        if (absent) die("%zu pages of pinned buffers are not resident", absent);
        fill_region(region, bytes, 0, round * 2 + 1);
        for (unsigned i = 0; i < BUFFERS; i++)
            transfer(IORING_OP_WRITE_FIXED, file, region + i * BUFFER_BYTES, i);
        if (pread(file, seen, bytes, 0) != (ssize_t)bytes) die_errno("pread");
        verify_region(seen, bytes, 0, round * 2 + 1, "what the kernel sent");
        fill_region(seen, bytes, 0, round * 2 + 2);
        if (pwrite(file, seen, bytes, 0) != (ssize_t)bytes) die_errno("pwrite");
        for (unsigned i = 0; i < BUFFERS; i++)
            transfer(IORING_OP_READ_FIXED, file, region + i * BUFFER_BYTES, i);
        verify_region(region, bytes, 0, round * 2 + 2, "what the kernel received");
    }
    verify_region(cold, 24 * MIB, 1 << 20, 0, "cold memory");
    unlink("fixed_buffers.data");
    printf("OK %ld rounds over %zu pinned pages\n", rounds, pages * BUFFERS);
}

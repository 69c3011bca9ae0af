/* Hazard: io_uring fixed buffers stay pinned for as long as they are registered: the kernel
 * reads and writes those frames, whatever the page table says later. They must not be moved
 * (UFFDIO_MOVE answers EBUSY). After a while under the pager the program writes new content,
 * which the kernel must send, and the kernel receives content, which the program must see.
 * Raw system calls: no liburing. Arguments: seed, rounds. Writes fixed_buffers.data. */
#include "common.h"
#include <linux/io_uring.h>
#include <sys/uio.h>

enum { BUFFERS = 8 };
static const size_t BUFFER_BYTES = 256 * 1024;

static int ring;
static struct io_uring_sqe *entries;
static unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_cqe *completions;

static void set_up(void) {
    struct io_uring_params p = {0};
    ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) skip("io_uring_setup is refused");
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *sq = mmap(NULL, sq_bytes, prot, flags, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_bytes, prot, flags, ring, IORING_OFF_CQ_RING);
    entries = mmap(NULL, p.sq_entries * sizeof *entries, prot, flags, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)entries == MAP_FAILED) die_errno("mmap of the ring");
    sq_tail = (void *)(sq + p.sq_off.tail);
    sq_mask = (void *)(sq + p.sq_off.ring_mask);
    sq_array = (void *)(sq + p.sq_off.array);
    cq_head = (void *)(cq + p.cq_off.head);
    cq_tail = (void *)(cq + p.cq_off.tail);
    cq_mask = (void *)(cq + p.cq_off.ring_mask);
    completions = (void *)(cq + p.cq_off.cqes);
}

static void transfer(int operation, int file, char *buffer, unsigned index) {
    unsigned tail = *sq_tail, slot = tail & *sq_mask;
    entries[slot] = (struct io_uring_sqe){
        .opcode = operation,
        .fd = file,
        .off = index * BUFFER_BYTES,
        .addr = (uintptr_t)buffer,
        .len = BUFFER_BYTES,
        .buf_index = index,
    };
    sq_array[slot] = slot;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    while (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        if (errno != EINTR) die_errno("io_uring_enter");
    unsigned head = *cq_head;
    while (head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE)) sched_yield();
    int result = completions[head & *cq_mask].res;
    __atomic_store_n(cq_head, head + 1, __ATOMIC_RELEASE);
    if (result != (int)BUFFER_BYTES) die("fixed transfer of buffer %u: result %d", index, result);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    long rounds = argument(argc, argv, 2, 4);
    set_up();
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

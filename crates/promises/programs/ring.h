/* io_uring by raw system calls (no liburing), one transfer at a time. */
#ifndef RING_H
#define RING_H

#include "common.h"
#include <linux/io_uring.h>

static int ring;
static struct io_uring_sqe *entries;
static unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_cqe *completions;

static UNUSED void set_up_ring(void) {
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

/* Submits one entry and waits for its result. */
static UNUSED int submit(const struct io_uring_sqe *entry) {
    unsigned tail = *sq_tail, slot = tail & *sq_mask;
    entries[slot] = *entry;
    sq_array[slot] = slot;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    while (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        if (errno != EINTR) die_errno("io_uring_enter");
    unsigned head = *cq_head;
    while (head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE)) sched_yield();
    int result = completions[head & *cq_mask].res;
    __atomic_store_n(cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

#endif

/* Hazard: io_uring moves bytes in threads of the kernel, which meet cold pages too. Buffers that are not
 * registered, scattered vectors and the vectors themselves are cold; transfers are made at once and by workers
 * (IOSQE_ASYNC), through a file and a socket. Arguments: seed, MiB, milliseconds. */
#include "ring.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum { MOST = 8 };

static char *region;
static size_t pages;
static uint64_t state;

static void check(size_t page, const uint64_t *ids, const uint64_t *versions, const char *when) {
    verify_page(region + page * PAGE, ids[page], versions[page], when);
}

static void transfer(struct io_uring_sqe entry, int expected, const char *what) {
    entry.flags = rng(&state) % 2 ? IOSQE_ASYNC : 0;
    int result = submit(&entry);
    if (result == -EINVAL || result == -EOPNOTSUPP) skip(what);
    if (result != expected) die("%s: result %d, expected %d", what, result, expected);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 16) * MIB;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000), transfers = 0;
    pages = bytes / PAGE;
    state = seed;
    set_up_ring();
    int file = memfd_create("file", 0), sockets[2];
    if (file < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) die_errno("files");
    static uint64_t *ids, *versions;
    ids = map_region(pages * 8), versions = map_region(pages * 8);
    region = map_region(bytes);
    for (size_t i = 0; i < pages; i++) fill_page(region + i * PAGE, ids[i] = i, versions[i] = 1);
    struct iovec *vectors = map_region(MIB); /* one pair a page: cold each time */
    settle(region, bytes);
    do {
        unsigned n = 1 + rng(&state) % MOST;
        size_t from = rng(&state) % (pages / 2 - n), to = pages / 2 + rng(&state) % (pages / 2 - n);
        struct iovec *out = vectors + rng(&state) % 128 * (PAGE / 16), *in = vectors + (128 + rng(&state) % 128) * (PAGE / 16);
        for (unsigned i = 0; i < n; i++) {
            out[i] = (struct iovec){region + (from + i) * PAGE, PAGE};
            in[i] = (struct iovec){region + (to + i) * PAGE, PAGE};
        }
        uintptr_t a = (uintptr_t)region + from * PAGE, b = (uintptr_t)region + to * PAGE;
        int expected = n * PAGE;
        switch (rng(&state) % 3) {
        case 0:
            transfer((struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = file, .addr = a, .len = expected}, expected, "write");
            transfer((struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file, .addr = b, .len = expected}, expected, "read");
            break;
        case 1:
            transfer((struct io_uring_sqe){.opcode = IORING_OP_WRITEV, .fd = file, .addr = (uintptr_t)out, .len = n}, expected, "writev");
            transfer((struct io_uring_sqe){.opcode = IORING_OP_READV, .fd = file, .addr = (uintptr_t)in, .len = n}, expected, "readv");
            break;
        default:
            transfer((struct io_uring_sqe){.opcode = IORING_OP_SEND, .fd = sockets[0], .addr = a, .len = expected}, expected, "send");
            transfer((struct io_uring_sqe){.opcode = IORING_OP_RECV, .fd = sockets[1], .addr = b, .len = expected,
                                           .msg_flags = MSG_WAITALL}, expected, "recv");
        }
        for (unsigned i = 0; i < n; i++) {
            ids[to + i] = ids[from + i], versions[to + i] = versions[from + i];
            check(from + i, ids, versions, "what the kernel sent");
            check(to + i, ids, versions, "what the kernel received");
            fill_page(region + (from + i) * PAGE, ids[from + i] = from + i, versions[from + i] += 1000);
        }
        transfers++;
    } while (now_ms() < deadline);
    for (size_t i = 0; i < pages; i++) check(i, ids, versions, "at the end");
    printf("OK %llu transfers\n", (unsigned long long)transfers);
}

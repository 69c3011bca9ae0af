/* Hazard: io_uring moves bytes in threads of the kernel, which meet cold pages too. Buffers that are not
 * registered, scattered vectors and the vectors themselves are cold; transfers are made at once and by workers
 * (IOSQE_ASYNC), through a file and a socket. Arguments: seed, MiB, milliseconds. */
#include "ring.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum { MOST = 8, PAIRS = 64 };

/* The vectors of a transfer, alone on two pages, and what a look at them would tell, which would bring them back. */
struct pair {
    struct iovec out[PAGE / sizeof(struct iovec)], in[PAGE / sizeof(struct iovec)];
};
static struct {
    unsigned n;
    size_t from, to;
} plans[PAIRS];

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
    struct pair *pairs = map_apart(PAIRS * sizeof *pairs);
    settle(region, bytes);
    size_t vectors_away = 0, buffers_away = 0;
    do {
        for (unsigned k = 0; k < PAIRS; k++) {
            unsigned n = 1 + rng(&state) % MOST;
            size_t from = rng(&state) % (pages / 2 - n), to = pages / 2 + rng(&state) % (pages / 2 - n);
            for (unsigned i = 0; i < n; i++) {
                pairs[k].out[i] = (struct iovec){region + (from + i) * PAGE, PAGE};
                pairs[k].in[i] = (struct iovec){region + (to + i) * PAGE, PAGE};
            }
            plans[k].n = n, plans[k].from = from, plans[k].to = to;
        }
        settle(pairs, PAIRS * sizeof *pairs);
        for (unsigned k = 0; k < PAIRS; k++, transfers++) {
            const struct pair *pair = &pairs[k];
            unsigned n = plans[k].n, kind = rng(&state) % 3;
            size_t from = plans[k].from, to = plans[k].to;
            char *a = region + from * PAGE, *b = region + to * PAGE;
            int expected = n * PAGE;
            buffers_away += absent_pages(a, expected) + absent_pages(b, expected);
            switch (kind) {
            case 0:
                transfer((struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = file, .addr = (uintptr_t)a, .len = expected}, expected, "write");
                transfer((struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file, .addr = (uintptr_t)b, .len = expected}, expected, "read");
                break;
            case 1:
                vectors_away += absent_pages(pair, sizeof *pair);
                transfer((struct io_uring_sqe){.opcode = IORING_OP_WRITEV, .fd = file, .addr = (uintptr_t)pair->out, .len = n}, expected, "writev");
                transfer((struct io_uring_sqe){.opcode = IORING_OP_READV, .fd = file, .addr = (uintptr_t)pair->in, .len = n}, expected, "readv");
                break;
            default:
                transfer((struct io_uring_sqe){.opcode = IORING_OP_SEND, .fd = sockets[0], .addr = (uintptr_t)a, .len = expected}, expected, "send");
                transfer((struct io_uring_sqe){.opcode = IORING_OP_RECV, .fd = sockets[1], .addr = (uintptr_t)b, .len = expected,
                                               .msg_flags = MSG_WAITALL}, expected, "recv");
            }
            for (unsigned i = 0; i < n; i++) {
                ids[to + i] = ids[from + i], versions[to + i] = versions[from + i];
                check(from + i, ids, versions, "what the kernel sent");
                check(to + i, ids, versions, "what the kernel received");
                fill_page(region + (from + i) * PAGE, ids[from + i] = from + i, versions[from + i] += 1000);
            }
        }
    } while (now_ms() < deadline);
    for (size_t i = 0; i < pages; i++) check(i, ids, versions, "at the end");
    insist_away(buffers_away, "buffers");
    insist_away(vectors_away, "vectors");
    printf("OK %llu transfers, %zu pages of buffers and %zu of vectors away\n", (unsigned long long)transfers,
           buffers_away, vectors_away);
}

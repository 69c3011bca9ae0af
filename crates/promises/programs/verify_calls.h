/* System calls into and out of memory that is cold, for `verify.c`. Each thread has a desk: pages of which a
 * book says what each must hold. A call takes its bytes from random pages of the desk and brings them to
 * others; so do the structures that it reads and writes. Then the other pages must hold what the first
 * ones held, and the rest of a page that held a structure must be as it was. */
#ifndef VERIFY_CALLS_H
#define VERIFY_CALLS_H

#include "verify_pages.h"
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>

enum { DESK_PAGES = 512, MOST_VECTORS = 8, STRUCT_BYTES = 1024 };

struct desk {
    struct cell *cell;
    unsigned thread;
    char *at;
    uint64_t *state;
    uint64_t calls, refused, verified;
    uint32_t id[DESK_PAGES], sequence[DESK_PAGES], newest;
    int file, sockets[2], pipes[2], event;
};

static char *desk_page(const struct desk *d, unsigned page) { return d->at + page * PAGE; }

static void desk_check(struct desk *d, unsigned page, const char *when) {
    step(d->cell, when, desk_page(d, page));
    if (wrong_word(desk_page(d, page), d->id[page], d->sequence[page]) >= 0)
        wrong_page(desk_page(d, page), d->id[page], d->sequence[page], when, d->thread);
    d->verified++;
}

/* Gives a page new content. */
static void desk_renew(struct desk *d, unsigned page) {
    d->id[page] = (d->thread + 1) << 24 | 1 << 23 | page;
    d->sequence[page] = ++d->newest;
    step(d->cell, "renewing a page of the desk", desk_page(d, page));
    write_page(desk_page(d, page), d->id[page], d->sequence[page]);
}

static void desk_open(struct desk *d, struct cell *cell, unsigned thread, uint64_t *state) {
    *d = (struct desk){.cell = cell, .thread = thread, .at = map_region(DESK_PAGES * PAGE), .state = state};
    d->file = memfd_create("desk", MFD_CLOEXEC);
    d->event = eventfd(0, EFD_CLOEXEC);
    if (d->file < 0 || d->event < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, d->sockets) ||
        pipe2(d->pipes, O_CLOEXEC) || ftruncate(d->file, MOST_VECTORS * PAGE))
        die_errno("desk");
    for (unsigned p = 0; p < DESK_PAGES; p++) desk_renew(d, p);
}

/* Checks that a call brought `expected`; EINTR before it did anything is tried again by the caller. */
static void brought(const struct desk *d, const char *call, ssize_t got, ssize_t expected) {
    if (got != expected)
        die("seed %llu thread %u: %s: %zd, expected %zd: %s", (unsigned long long)seed, d->thread, call, got, expected,
            got < 0 ? strerror(errno) : "");
}

#define RETRIED(call)                                                                                                  \
    ({                                                                                                                 \
        ssize_t got_;                                                                                                  \
        do got_ = (call);                                                                                              \
        while (got_ < 0 && errno == EINTR);                                                                            \
        got_;                                                                                                          \
    })

/* Distinct pages: sources first, destinations after them. */
static void choose_pages(struct desk *d, unsigned *pages, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        unsigned k;
        do {
            pages[i] = rng(d->state) % DESK_PAGES;
            for (k = 0; k < i && pages[k] != pages[i]; k++) {
            }
        } while (k < i);
    }
}

/* The page that holds a structure for a call: it was right before, and is renewed after. */
static void *lay(struct desk *d, unsigned page) {
    desk_check(d, page, "before it holds a structure");
    return desk_page(d, page);
}

static void clear(struct desk *d, unsigned page, const char *call) {
    const uint64_t *words = (const uint64_t *)desk_page(d, page);
    struct image m = image_of(d->id[page], d->sequence[page]);
    for (unsigned i = STRUCT_BYTES / 8; i < WORDS; i++)
        if (words[i] != image_word(&m, i)) wrong_page(words, d->id[page], d->sequence[page], call, d->thread);
    desk_renew(d, page);
}

static void transferred(struct desk *d, const unsigned *from, const unsigned *to, unsigned count, const char *call) {
    for (unsigned i = 0; i < count; i++) {
        d->id[to[i]] = d->id[from[i]];
        d->sequence[to[i]] = d->sequence[from[i]];
        desk_check(d, to[i], call);
        desk_check(d, from[i], call);
        desk_renew(d, rng(d->state) % 2 ? to[i] : from[i]);
    }
    d->calls++;
}

/* Scattered pages by vectors that lie in cold memory themselves. */
static void by_vectors(struct desk *d, unsigned how) {
    static const char *names[] = {"pwritev, preadv", "sendmsg, recvmsg", "writev, readv on a pipe", "process_vm_readv",
                                  "process_vm_writev"};
    unsigned n = 1 + rng(d->state) % MOST_VECTORS, pages[2 * MOST_VECTORS + 2];
    choose_pages(d, pages, 2 * n + 2);
    unsigned *from = pages, *to = pages + n, out = pages[2 * n], in = pages[2 * n + 1];
    struct iovec *sent = lay(d, out), *received = lay(d, in);
    for (unsigned i = 0; i < n; i++) {
        sent[i] = (struct iovec){desk_page(d, from[i]), PAGE};
        received[i] = (struct iovec){desk_page(d, to[i]), PAGE};
    }
    step(d->cell, names[how], sent);
    ssize_t bytes = n * PAGE;
    switch (how) {
    case 0:
        brought(d, "pwritev", RETRIED(pwritev(d->file, sent, n, 0)), bytes);
        step(d->cell, "preadv", received);
        brought(d, "preadv", RETRIED(preadv(d->file, received, n, 0)), bytes);
        break;
    case 1: {
        struct msghdr *a = (void *)(sent + 2 * MOST_VECTORS), *b = (void *)(received + 2 * MOST_VECTORS);
        *a = (struct msghdr){.msg_iov = sent, .msg_iovlen = n};
        *b = (struct msghdr){.msg_iov = received, .msg_iovlen = n};
        brought(d, "sendmsg", RETRIED(sendmsg(d->sockets[0], a, 0)), bytes);
        step(d->cell, "recvmsg", received);
        brought(d, "recvmsg", RETRIED(recvmsg(d->sockets[1], b, 0)), bytes);
        break;
    }
    case 2:
        brought(d, "writev", RETRIED(writev(d->pipes[1], sent, n)), bytes);
        step(d->cell, "readv", received);
        brought(d, "readv", RETRIED(readv(d->pipes[0], received, n)), bytes);
        break;
    default: {
        ssize_t got = how == 3 ? process_vm_readv(getpid(), received, n, sent, n, 0)
                               : process_vm_writev(getpid(), sent, n, received, n, 0);
        if (got != bytes) { /* it may say that it cannot, never that it did */
            if (got < 0 && errno != EFAULT) die_errno(names[how]);
            d->refused++;
            for (unsigned i = 0; i < n; i++) desk_renew(d, to[i]);
            clear(d, out, names[how]), clear(d, in, names[how]);
            return;
        }
    }
    }
    clear(d, out, names[how]), clear(d, in, names[how]);
    transferred(d, from, to, n, names[how]);
}

/* One stretch of neighbouring pages: a short read would stop at the first that is away. */
static void by_stretch(struct desk *d) {
    unsigned n = 1 + rng(d->state) % MOST_VECTORS, a = rng(d->state) % (DESK_PAGES / 2 - n);
    unsigned b = DESK_PAGES / 2 + rng(d->state) % (DESK_PAGES / 2 - n), from[MOST_VECTORS], to[MOST_VECTORS];
    for (unsigned i = 0; i < n; i++) from[i] = a + i, to[i] = b + i;
    step(d->cell, "pwrite", desk_page(d, a));
    brought(d, "pwrite", RETRIED(pwrite(d->file, desk_page(d, a), n * PAGE, 0)), n * PAGE);
    step(d->cell, "pread", desk_page(d, b));
    brought(d, "pread", RETRIED(pread(d->file, desk_page(d, b), n * PAGE, 0)), n * PAGE);
    transferred(d, from, to, n, "pread");
}

/* Random bytes, a copy of them, and both compared. */
static void random_bytes(struct desk *d) {
    unsigned pages[2];
    choose_pages(d, pages, 2);
    char *a = desk_page(d, pages[0]), *b = desk_page(d, pages[1]);
    step(d->cell, "getrandom", a);
    brought(d, "getrandom", RETRIED(syscall(SYS_getrandom, a, PAGE, 0)), PAGE);
    step(d->cell, "copying random bytes", b);
    memcpy(b, a, PAGE);
    sched_yield();
    if (memcmp(a, b, PAGE)) die("seed %llu thread %u: random bytes differ from their copy", (unsigned long long)seed, d->thread);
    desk_renew(d, pages[0]), desk_renew(d, pages[1]);
    d->calls++;
}

/* Calls that consume or tell something, with all they read and write in one cold page. */
static void structures(struct desk *d) {
    unsigned page;
    choose_pages(d, &page, 1);
    unsigned what = rng(d->state) % 8;
    uint64_t *words = lay(d, page);
    static const char *names[] = {"eventfd", "futex", "poll", "uname", "fstat", "clock_gettime", "nanosleep", "getsockname"};
    step(d->cell, names[what], words);
    switch (what) {
    case 0:
        words[0] = 1 + rng(d->state) % 1000, words[1] = 0;
        brought(d, "eventfd write", RETRIED(write(d->event, words, 8)), 8);
        brought(d, "eventfd read", RETRIED(read(d->event, words + 1, 8)), 8);
        if (words[0] != words[1]) die("eventfd: %llu, expected %llu", (unsigned long long)words[1], (unsigned long long)words[0]);
        break;
    case 1:
        *(uint32_t *)words = 7;
        if (syscall(SYS_futex, words, FUTEX_WAIT_PRIVATE, 8, NULL, NULL, 0) != -1 || errno != EAGAIN) die_errno("futex");
        break;
    case 2: {
        struct pollfd *p = (void *)words;
        for (unsigned i = 0; i < 100; i++) p[i] = (struct pollfd){d->pipes[1], POLLOUT, 0};
        brought(d, "poll", RETRIED(poll(p, 100, -1)), 100);
        for (unsigned i = 0; i < 100; i++) brought(d, "poll's answer", p[i].revents, POLLOUT);
        break;
    }
    case 3:
        brought(d, "uname", uname((void *)words), 0);
        if (strcmp(((struct utsname *)words)->sysname, "Linux")) die("uname brought no name");
        break;
    case 4:
        brought(d, "fstat", syscall(SYS_fstat, d->file, words), 0);
        if (((struct stat *)words)->st_size != (off_t)(MOST_VECTORS * PAGE)) die("fstat brought no size");
        break;
    case 5:
        words[0] = 0;
        brought(d, "clock_gettime", syscall(SYS_clock_gettime, CLOCK_REALTIME, words), 0);
        if (!words[0]) die("clock_gettime brought no time");
        break;
    case 6:
        *(struct timespec *)words = (struct timespec){0, 1000};
        if (syscall(SYS_nanosleep, words, words + 2) && errno != EINTR) die_errno("nanosleep");
        break;
    default: {
        socklen_t *length = (void *)(words + 100);
        *length = sizeof(struct sockaddr_un);
        brought(d, "getsockname", getsockname(d->sockets[0], (void *)words, length), 0);
        if (((struct sockaddr *)words)->sa_family != AF_UNIX) die("getsockname brought no family");
    }
    }
    clear(d, page, names[what]);
    d->calls++;
}

static void call_something(struct desk *d) {
    unsigned what = rng(d->state) % 16;
    if (what < 10) by_vectors(d, what % 5);
    else if (what < 12) by_stretch(d);
    else if (what < 13) random_bytes(d);
    else structures(d);
}

#endif

/* System calls into and out of memory that is cold, for `verify.c`. Each thread has a desk: pages of which a
 * book says what each must hold. A call takes its bytes from random pages of the desk and brings them to
 * others. What a call reads besides (vectors, headers, a timeout) was written long before, for one of many
 * errands, and nobody has touched its page since; what it tells goes to a page that nobody looks at first.
 * Then the other pages must hold what the first ones held, and the rest of a page that held a structure must
 * be as it was. */
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

enum { DESK_PAGES = 512, MOST_VECTORS = 8, STRUCT_BYTES = 1024, ERRANDS = 64, POLLED = 90 };

/* The first bytes of the two pages of an errand with vectors ... */
struct vectors {
    struct iovec iov[MOST_VECTORS];
    struct msghdr header;
};

/* ... and of the third, for whichever call it comes to. */
struct inputs {
    uint64_t event;
    uint32_t futex;
    struct timespec duration;
    socklen_t length;
    struct pollfd polled[POLLED];
};

_Static_assert(sizeof(struct vectors) <= STRUCT_BYTES && sizeof(struct inputs) <= STRUCT_BYTES, "STRUCT_BYTES");

/* What is known of an errand without a look at its pages. */
struct errand {
    unsigned n, from[MOST_VECTORS], to[MOST_VECTORS];
    uint32_t sequence;
};
enum { SENT, RECEIVED, INPUTS, ERRAND_PAGES };

struct desk {
    struct cell *cell;
    unsigned thread;
    char *at, *errands_at;
    uint64_t *state;
    uint64_t calls, refused, verified, cold;
    uint32_t id[DESK_PAGES], sequence[DESK_PAGES], newest;
    struct errand errands[ERRANDS];
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

/* Behind its structure a page must be as it was written. */
static void check_behind(const struct desk *d, const void *page, uint64_t id, uint64_t sequence, const char *call) {
    const uint64_t *words = page;
    struct image m = image_of(id, sequence);
    for (unsigned i = STRUCT_BYTES / 8; i < WORDS; i++)
        if (words[i] != image_word(&m, i)) wrong_page(words, id, sequence, call, d->thread);
}

static void *errand_page(const struct desk *d, unsigned errand, unsigned which) {
    return d->errands_at + (errand * ERRAND_PAGES + which) * PAGE;
}

static uint64_t errand_id(const struct desk *d, unsigned errand, unsigned which) {
    return (d->thread + 1) << 24 | 3 << 22 | (errand * ERRAND_PAGES + which);
}

/* Writes all that its calls will read, to be used some time. */
static void errand_prepare(struct desk *d, unsigned errand) {
    struct errand *e = &d->errands[errand];
    unsigned pages[2 * MOST_VECTORS];
    e->n = 1 + rng(d->state) % MOST_VECTORS;
    e->sequence = ++d->newest;
    choose_pages(d, pages, 2 * e->n);
    for (unsigned which = 0; which < ERRAND_PAGES; which++) {
        step(d->cell, "preparing an errand", errand_page(d, errand, which));
        write_page(errand_page(d, errand, which), errand_id(d, errand, which), e->sequence);
    }
    struct vectors *sent = errand_page(d, errand, SENT), *received = errand_page(d, errand, RECEIVED);
    for (unsigned i = 0; i < e->n; i++) {
        e->from[i] = pages[i], e->to[i] = pages[e->n + i];
        sent->iov[i] = (struct iovec){desk_page(d, e->from[i]), PAGE};
        received->iov[i] = (struct iovec){desk_page(d, e->to[i]), PAGE};
    }
    sent->header = (struct msghdr){.msg_iov = sent->iov, .msg_iovlen = e->n};
    received->header = (struct msghdr){.msg_iov = received->iov, .msg_iovlen = e->n};
    struct inputs *inputs = errand_page(d, errand, INPUTS);
    inputs->event = e->sequence;
    inputs->futex = 7;
    inputs->duration = (struct timespec){0, 1000};
    inputs->length = sizeof(struct sockaddr_un);
    for (unsigned i = 0; i < POLLED; i++) inputs->polled[i] = (struct pollfd){d->pipes[1], POLLOUT, 0};
}

/* One of the errands, and whether the page that the kernel will read first is away. */
static unsigned errand_take(struct desk *d, unsigned which) {
    unsigned errand = rng(d->state) % ERRANDS;
    d->cold += absent_pages(errand_page(d, errand, which), PAGE);
    return errand;
}

static void errand_done(struct desk *d, unsigned errand, const char *call) {
    for (unsigned which = 0; which < ERRAND_PAGES; which++)
        check_behind(d, errand_page(d, errand, which), errand_id(d, errand, which), d->errands[errand].sequence, call);
    errand_prepare(d, errand);
}

static void desk_open(struct desk *d, struct cell *cell, unsigned thread, uint64_t *state) {
    *d = (struct desk){.cell = cell, .thread = thread, .state = state};
    d->at = map_region((DESK_PAGES + ERRANDS * ERRAND_PAGES) * PAGE);
    d->errands_at = d->at + DESK_PAGES * PAGE;
    d->file = memfd_create("desk", MFD_CLOEXEC);
    d->event = eventfd(0, EFD_CLOEXEC);
    if (d->file < 0 || d->event < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, d->sockets) ||
        pipe2(d->pipes, O_CLOEXEC) || ftruncate(d->file, MOST_VECTORS * PAGE))
        die_errno("desk");
    for (unsigned p = 0; p < DESK_PAGES; p++) desk_renew(d, p);
    for (unsigned e = 0; e < ERRANDS; e++) errand_prepare(d, e);
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

/* The page that holds a structure for a call: it was right before, and is renewed after. */
static void *lay(struct desk *d, unsigned page) {
    desk_check(d, page, "before it holds a structure");
    return desk_page(d, page);
}

static void clear(struct desk *d, unsigned page, const char *call) {
    check_behind(d, desk_page(d, page), d->id[page], d->sequence[page], call);
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

/* Scattered pages by vectors that lie in cold memory themselves, as their headers do. */
static void by_vectors(struct desk *d, unsigned how) {
    static const char *names[] = {"pwritev, preadv", "sendmsg, recvmsg", "writev, readv on a pipe", "process_vm_readv",
                                  "process_vm_writev"};
    unsigned errand = errand_take(d, SENT), n = d->errands[errand].n;
    struct vectors *v = errand_page(d, errand, SENT), *w = errand_page(d, errand, RECEIVED);
    const struct iovec *sent = v->iov, *received = w->iov;
    step(d->cell, names[how], sent);
    ssize_t bytes = n * PAGE;
    switch (how) {
    case 0:
        brought(d, "pwritev", RETRIED(pwritev(d->file, sent, n, 0)), bytes);
        step(d->cell, "preadv", received);
        brought(d, "preadv", RETRIED(preadv(d->file, received, n, 0)), bytes);
        break;
    case 1:
        brought(d, "sendmsg", RETRIED(sendmsg(d->sockets[0], &v->header, 0)), bytes);
        step(d->cell, "recvmsg", received);
        brought(d, "recvmsg", RETRIED(recvmsg(d->sockets[1], &w->header, 0)), bytes);
        break;
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
            for (unsigned i = 0; i < n; i++) desk_renew(d, d->errands[errand].to[i]);
            errand_done(d, errand, names[how]);
            return;
        }
    }
    }
    transferred(d, d->errands[errand].from, d->errands[errand].to, n, names[how]);
    errand_done(d, errand, names[how]);
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

/* Calls that consume or tell something: what they read was written before, what they write goes to a page of the
 * desk that nobody has looked at. */
static void structures(struct desk *d) {
    static const char *names[] = {"eventfd", "futex", "poll", "uname", "fstat", "clock_gettime", "nanosleep", "getsockname"};
    unsigned page, what = rng(d->state) % 8, errand = errand_take(d, INPUTS);
    choose_pages(d, &page, 1);
    struct inputs *in = errand_page(d, errand, INPUTS);
    uint64_t *out = (uint64_t *)desk_page(d, page);
    step(d->cell, names[what], in);
    switch (what) {
    case 0:
        brought(d, "eventfd write", RETRIED(write(d->event, &in->event, 8)), 8);
        step(d->cell, "eventfd read", out);
        brought(d, "eventfd read", RETRIED(read(d->event, out, 8)), 8);
        if (*out != in->event || *out != d->errands[errand].sequence)
            die("eventfd: %llu, expected %u", (unsigned long long)*out, d->errands[errand].sequence);
        break;
    case 1:
        if (syscall(SYS_futex, &in->futex, FUTEX_WAIT_PRIVATE, 8, NULL, NULL, 0) != -1 || errno != EAGAIN) die_errno("futex");
        break;
    case 2:
        brought(d, "poll", RETRIED(poll(in->polled, POLLED, -1)), POLLED);
        for (unsigned i = 0; i < POLLED; i++) brought(d, "poll's answer", in->polled[i].revents, POLLOUT);
        break;
    case 3:
        brought(d, "uname", uname((void *)out), 0);
        if (strcmp(((struct utsname *)out)->sysname, "Linux")) die("uname brought no name");
        break;
    case 4:
        brought(d, "fstat", syscall(SYS_fstat, d->file, out), 0);
        if (((struct stat *)out)->st_size != (off_t)(MOST_VECTORS * PAGE)) die("fstat brought no size");
        break;
    case 5: {
        struct timespec before, *told = (void *)out;
        clock_gettime(CLOCK_MONOTONIC, &before);
        brought(d, "clock_gettime", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, told), 0);
        if (told->tv_sec < before.tv_sec || told->tv_sec > before.tv_sec + 3600) die("clock_gettime brought no time");
        break;
    }
    case 6:
        if (syscall(SYS_nanosleep, &in->duration, out) && errno != EINTR) die_errno("nanosleep");
        break;
    default:
        brought(d, "getsockname", getsockname(d->sockets[0], (void *)out, &in->length), 0);
        if (((struct sockaddr *)out)->sa_family != AF_UNIX) die("getsockname brought no family");
    }
    clear(d, page, names[what]);
    errand_done(d, errand, names[what]);
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

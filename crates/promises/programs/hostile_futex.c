/* The kernel takes some words of futexes without waiting for their page. Every operation on a word that is away, alone on
 * its page, gives what it gives natively; and so do mutexes that lend priority.
 * Arguments: seed. */
#include "common.h"
#include <linux/futex.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

enum { TRIES = 6 };
static const size_t BYTES = 4 << 20;
static char *region;
static unsigned met, asked;

/* A page of its own for a word. Waits until it is away; natively it is in place. */
static _Atomic uint32_t *word(unsigned n, uint32_t value) {
    _Atomic uint32_t *w = (void *)(region + (100 + n) * PAGE);
    *w = value;
    return w;
}

static void away(const void *a, const void *b) {
    if (!managed()) return;
    for (unsigned i = 0; i < 3000; i++) {
        size_t gone = absent_pages((void *)((uintptr_t)a & -PAGE), PAGE);
        if (b) gone += absent_pages((void *)((uintptr_t)b & -PAGE), PAGE);
        if (gone == (b ? 2 : 1)) {
            met++;
            return;
        }
        sleep_ms(1);
    }
}

static void expect(const char *what, int is_private, long result, long wanted, int error) {
    if (result != wanted || (result < 0 && errno != error))
        die("%s%s: %ld (%s), natively %ld (%s)", what, is_private ? " (private)" : "", result,
            result < 0 ? strerror(errno) : "-", wanted, wanted < 0 ? strerror(error) : "-");
}

static long futex(void *w, int operation, uint32_t value, uintptr_t timeout, void *second, uint32_t third) {
    asked++;
    return syscall(SYS_futex, w, operation, value, timeout, second, third);
}

static void all(int flag) {
    uint32_t me = syscall(SYS_gettid);
    struct timespec soon = {0, 1000000};
    struct timespec past = {1, 0};
    _Atomic uint32_t *a, *b;
    for (unsigned try = 0; try < TRIES; try++) {
        unsigned n = try * 40;
        a = word(n + 0, 1), away(a, 0);
        expect("WAIT", flag, futex(a, FUTEX_WAIT | flag, 2, 0, 0, 0), -1, EAGAIN);
        a = word(n + 1, 1), away(a, 0);
        expect("WAIT for a while", flag, futex(a, FUTEX_WAIT | flag, 1, (uintptr_t)&soon, 0, 0), -1, ETIMEDOUT);
        a = word(n + 2, 1), away(a, 0);
        expect("WAIT_BITSET", flag, futex(a, FUTEX_WAIT_BITSET | flag, 2, 0, 0, ~0u), -1, EAGAIN);
        a = word(n + 3, 1), away(a, 0);
        expect("WAKE", flag, futex(a, FUTEX_WAKE | flag, 1, 0, 0, 0), 0, 0);
        a = word(n + 4, 1), b = word(n + 5, 1), away(a, b);
        expect("REQUEUE", flag, futex(a, FUTEX_REQUEUE | flag, 1, 1, b, 0), 0, 0);
        a = word(n + 6, 1), b = word(n + 7, 1), away(a, b);
        expect("CMP_REQUEUE", flag, futex(a, FUTEX_CMP_REQUEUE | flag, 1, 1, b, 1), 0, 0);
        a = word(n + 8, 1), b = word(n + 9, 6), away(a, b);
        uint32_t add = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 6);
        expect("WAKE_OP", flag, futex(a, FUTEX_WAKE_OP | flag, 1, 1, b, add), 0, 0);
        if (*b != 9) die("WAKE_OP: the word is %u, natively 9", *b);
        a = word(n + 10, 0), away(a, 0);
        expect("LOCK_PI", flag, futex(a, FUTEX_LOCK_PI | flag, 0, 0, 0, 0), 0, 0);
        if (*a != me) die("LOCK_PI: the word is %#x, natively %#x", *a, me);
        away(a, 0);
        expect("UNLOCK_PI", flag, futex(a, FUTEX_UNLOCK_PI | flag, 0, 0, 0, 0), 0, 0);
        if (*a) die("UNLOCK_PI: the word is %#x, natively 0", *a);
        a = word(n + 11, 0), away(a, 0);
        expect("TRYLOCK_PI", flag, futex(a, FUTEX_TRYLOCK_PI | flag, 0, 0, 0, 0), 0, 0);
        away(a, 0);
        expect("LOCK_PI of one's own", flag, futex(a, FUTEX_LOCK_PI | flag, 0, 0, 0, 0), -1, EDEADLK);
        a = word(n + 12, 0), away(a, 0);
        long locked = futex(a, FUTEX_LOCK_PI2 | flag, 0, 0, 0, 0);
        if (locked < 0 && errno != ENOSYS) expect("LOCK_PI2", flag, locked, 0, 0);
        a = word(n + 13, 1), b = word(n + 14, 0), away(a, b);
        expect("CMP_REQUEUE_PI", flag, futex(a, FUTEX_CMP_REQUEUE_PI | flag, 1, 1, b, 2), -1, EAGAIN);
        a = word(n + 15, 1), b = word(n + 16, 0), away(a, b);
        expect("CMP_REQUEUE_PI of nobody", flag, futex(a, FUTEX_CMP_REQUEUE_PI | flag, 1, 1, b, 1), 0, 0);
        a = word(n + 17, 1), b = word(n + 18, 0), away(a, b);
        expect("WAIT_REQUEUE_PI", flag, futex(a, FUTEX_WAIT_REQUEUE_PI | flag, 1, (uintptr_t)&past, b, 0), -1,
               ETIMEDOUT);
    }
}

static void mutexes(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    enum { COUNT = 64 };
    pthread_mutex_t *mutex[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        mutex[i] = (void *)(region + (500 + i) * PAGE);
        int e = pthread_mutex_init(mutex[i], &attributes);
        if (e) die("pthread_mutex_init: %s", strerror(e));
    }
    for (unsigned round = 0; round < 3; round++) {
        settle(region, BYTES);
        /* Between libc's look at the word and the kernel's there is no time to wait for: it stays. */
        for (unsigned i = 0; i < COUNT; i++)
            if (absent_pages((void *)((uintptr_t)mutex[i] & -PAGE), PAGE)) die("the page of mutex %u is away", i);
        for (unsigned i = 0; i < COUNT; i++) {
            int e = i % 2 ? pthread_mutex_lock(mutex[i]) : pthread_mutex_trylock(mutex[i]);
            if (e) die("mutex %u: %s", i, strerror(e));
        }
        settle(region, BYTES);
        for (unsigned i = 0; i < COUNT; i++) {
            int e = pthread_mutex_unlock(mutex[i]);
            if (e) die("unlocking mutex %u: %s", i, strerror(e));
        }
    }
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    region = map_region(BYTES);
    fill_region(region, BYTES, 0, 1);
    settle(region, BYTES);
    mutexes();
    all(0);
    all(FUTEX_PRIVATE_FLAG);
    if (managed() && met < asked / 2) die("only %u of %u calls found their words away: the hazard was not met", met, asked);
    verify_region(region, 100 * PAGE, 0, 1, "at the end");
    printf("OK %u calls, %u with their words away\n", asked, met);
}

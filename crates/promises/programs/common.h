/* What every hazard program shares: page contents that prove themselves, and time for the pager.
 *
 * A page is 512 words that follow from (seed, id, version): one word in eight is random, the
 * rest repeat, so that it compresses about six to one and no two pages are alike. Every program
 * prints `OK <figures>` and exits 0, or prints `WRONG: ...` (address, expected, found) and exits
 * 1; exit 77 says that this machine cannot show the hazard. The first argument is the seed.
 *
 * PROMISES_MANAGED=1 in the environment says that a pager is expected: `settle` then insists on
 * having pages evicted, because a hazard that never met a compressed page proves nothing. */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define WORDS (PAGE / 8)
#define MIB ((size_t)1 << 20)
#define SKIPPED 77
#define UNUSED __attribute__((unused))

static uint64_t seed = 1;

/* Without stdio's buffers, so that forked and cloned children may use it too. */
static UNUSED _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length >= (int)sizeof text) length = sizeof text - 1;
    dprintf(1, "WRONG: %.*s\n", length, text);
    _exit(1);
}

static UNUSED _Noreturn void die_errno(const char *what) { die("%s: %s", what, strerror(errno)); }

static UNUSED _Noreturn void skip(const char *why) {
    dprintf(1, "SKIPPED: %s: %s\n", why, strerror(errno));
    _exit(SKIPPED);
}

/* Argument `n` as a number, or `fallback` where it is absent. */
static UNUSED long argument(int argc, char **argv, int n, long fallback) {
    return argc > n ? strtol(argv[n], NULL, 0) : fallback;
}

static UNUSED int managed(void) { return getenv("PROMISES_MANAGED") != NULL; }

static UNUSED uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static UNUSED uint64_t rng(uint64_t *state) { return mix(*state += 0x9E3779B97F4A7C15u); }

static UNUSED uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static UNUSED void sleep_ms(unsigned ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}

/* A copy of the process by an instruction, past every hook of libc: 0 in the child, its number or the error in the parent. */
static UNUSED long raw_clone(void) {
    long result;
    register long child_tid __asm__("r10") = 0, tls __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0), "r"(child_tid), "r"(tls)
                     : "rcx", "r11", "memory");
    return result;
}

static UNUSED void *map_region(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) die_errno("mmap");
    return p;
}

/* A region with a gap on either side, for what is small and to be evicted: what the first thread's control block
 * lies in is left alone as a whole, and the kernel may join a fresh mapping to that. Less than 128 KiB by itself is
 * left alone, too. */
static UNUSED void *map_apart(size_t bytes) {
    char *p = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE)) die_errno("a mapping apart");
    return p + PAGE;
}

static UNUSED uint64_t word_of(uint64_t id, uint64_t version, unsigned i) {
    if (i % 8) return id << 32 ^ version;
    return mix(seed * 0x9E3779B97F4A7C15u + id * 0xC2B2AE3D27D4EB4Fu + version * 0x165667B19E3779F9u + i);
}

static UNUSED void fill_page(void *page, uint64_t id, uint64_t version) {
    uint64_t *words = page;
    for (unsigned i = 0; i < WORDS; i++) words[i] = word_of(id, version, i);
}

/* First word of the page that is not (id, version), or -1. */
static UNUSED int first_wrong(const void *page, uint64_t id, uint64_t version) {
    const uint64_t *words = page;
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != word_of(id, version, i)) return i;
    return -1;
}

static UNUSED void verify_page(const void *page, uint64_t id, uint64_t version, const char *when) {
    int i = first_wrong(page, id, version);
    if (i >= 0)
        die("%s: page %llu at %p word %d: expected %#llx (version %llu), found %#llx", when, (unsigned long long)id,
            page, i, (unsigned long long)word_of(id, version, i), (unsigned long long)version,
            (unsigned long long)((const uint64_t *)page)[i]);
}

static UNUSED int is_zero(const void *page) {
    const uint64_t *words = page;
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i]) return 0;
    return 1;
}

static UNUSED void verify_zero(const void *page, const char *when) {
    const uint64_t *words = page;
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i]) die("%s: page at %p word %u: expected 0, found %#llx", when, page, i, (unsigned long long)words[i]);
}

/* Pages `first_id`... of a region of `bytes`, all of one version. */
static UNUSED void fill_region(void *region, size_t bytes, uint64_t first_id, uint64_t version) {
    for (size_t i = 0; i < bytes / PAGE; i++) fill_page((char *)region + i * PAGE, first_id + i, version);
}

static UNUSED void verify_region(const void *region, size_t bytes, uint64_t first_id, uint64_t version,
                                 const char *when) {
    for (size_t i = 0; i < bytes / PAGE; i++)
        verify_page((const char *)region + i * PAGE, first_id + i, version, when);
}

static UNUSED void verify_zero_region(const void *region, size_t bytes, const char *when) {
    for (size_t i = 0; i < bytes / PAGE; i++) verify_zero((const char *)region + i * PAGE, when);
}

/* Pages of the range that are not in memory now. */
static UNUSED size_t absent_pages(const void *region, size_t bytes) {
    unsigned char present[1024];
    size_t absent = 0;
    for (size_t at = 0; at < bytes; at += sizeof present * PAGE) {
        size_t part = bytes - at < sizeof present * PAGE ? bytes - at : sizeof present * PAGE;
        if (mincore((char *)region + at, part, present)) die_errno("mincore");
        for (size_t i = 0; i < part / PAGE; i++) absent += !(present[i] & 1);
    }
    return absent;
}

/* Lets the pager work until so many pages of the region are out, for so long at most, pressing with `ballast_mib` MiB
 * of other memory. How many are. */
static UNUSED size_t press_out(const void *region, size_t bytes, size_t wanted, uint64_t most_ms, size_t ballast_mib) {
    char *ballast = ballast_mib ? map_region(ballast_mib * MIB) : NULL;
    uint64_t deadline = now_ms() + most_ms;
    size_t absent, round = 0;
    for (; (absent = absent_pages(region, bytes)) < wanted && now_ms() <= deadline; round++) {
        if (ballast) fill_region(ballast + round % ballast_mib * MIB, MIB, 1u << 30, round);
        sleep_ms(5);
    }
    if (ballast) munmap(ballast, ballast_mib * MIB);
    return absent;
}

/* Until a quarter of it is out, which it must be. Natively there is nothing to wait for. */
static UNUSED void settle_under(const void *region, size_t bytes, size_t ballast_mib) {
    if (!managed()) {
        sleep_ms(2);
        return;
    }
    size_t pages = bytes / PAGE, absent = press_out(region, bytes, (pages + 3) / 4, 15000, ballast_mib);
    if (absent * 4 < pages)
        die("settle: only %zu of %zu pages at %p were evicted within 15 s: the hazard was not met", absent, pages, region);
}

static UNUSED void settle(const void *region, size_t bytes) { settle_under(region, bytes, 16); }

/* Until the whole of a small region is away, or not, within a second: what somebody uses is away only now and then. */
static UNUSED void settle_whole(const void *region, size_t bytes) {
    if (managed()) press_out(region, bytes, bytes / PAGE, 1000, 16);
}

/* KiB of huge pages in the program. */
static UNUSED long huge_kib(void) {
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = -1;
    while (rollup && fgets(line, sizeof line, rollup)) sscanf(line, "AnonHugePages: %ld", &kib);
    if (rollup) fclose(rollup);
    return kib;
}

/* Natively nothing is ever away: a hazard is met where a pager is expected, or this fails. */
static UNUSED void insist_away(size_t away, const char *what) {
    if (managed() && !away) die("%s: never away in the moment that matters: the hazard was not met", what);
}

/* Exit status of a child, which must have exited and not been killed. */
static UNUSED int wait_exit(pid_t child, const char *what) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) die("%s: waitpid: %s", what, strerror(errno));
    if (!WIFEXITED(status)) die("%s: child %d was killed by signal %d", what, child, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* A child that ends with status 0. */
static UNUSED void wait_success(pid_t child, const char *what) {
    int status = wait_exit(child, what);
    if (status) die("%s: child %d ended with status %d", what, child, status);
}

static UNUSED pthread_t start_thread(void *(*body)(void *), void *context) {
    pthread_t thread;
    int e = pthread_create(&thread, NULL, body, context);
    if (e) die("pthread_create: %s", strerror(e));
    return thread;
}

static UNUSED void join_thread(pthread_t thread) {
    int e = pthread_join(thread, NULL);
    if (e) die("pthread_join: %s", strerror(e));
}

#endif

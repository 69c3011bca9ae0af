/* What the measured programs share: contents of pages, the clock, and being steered.
 *
 * Whoever started the program steers it by lines on its standard input, and reads one line of JSON
 * for each step from its standard output. Memory and counters are read from outside meanwhile.
 *
 * A page is a copy of one of 256 patterns, so that filling it costs no more than copying; its
 * number stands at both ends. Pages are compressed one by one, so that copies gain nothing. A text
 * pattern is words and decimal numbers (about 3:1 with lz4), a noise pattern does not compress. */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

enum { PAGE = 4096, WORDS = PAGE / 8, PATTERNS = 256 };
#define MIB ((size_t)1 << 20)

enum contents { TEXT, HALF, NOISE };

/* Mapped, so that the program's own data stays as small as that of programs is. */
static uint64_t (*patterns)[PATTERNS][WORDS];

static UNUSED _Noreturn void fail(const char *what)
{
    perror(what);
    exit(2);
}

static UNUSED uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static UNUSED uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static UNUSED void *map_bytes(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("mmap");
    return at;
}

static UNUSED void make_patterns(void)
{
    static const char *const words[] = {
        "account", "archive", "balance", "channel", "checkout", "customer", "delivery", "election",
        "february", "gateway", "hardware", "invoice", "keyboard", "language", "location", "material",
    };
    uint64_t state = 1;
    patterns = map_bytes(2 * sizeof *patterns);
    for (int n = 0; n < PATTERNS; n++) {
        char *text = (char *)patterns[0][n];
        for (size_t at = 0; at < PAGE;) {
            char piece[64];
            uint64_t random = mix(state += 0x9e3779b97f4a7c15u);
            int length = snprintf(piece, sizeof piece, "%s number %03u of the %s department; ",
                                  words[random % 16], (unsigned)(random >> 8) % 1000, words[(random >> 40) % 16]);
            size_t part = (size_t)length < PAGE - at ? (size_t)length : PAGE - at;
            memcpy(text + at, piece, part);
            at += part;
        }
        for (int i = 0; i < WORDS; i++) patterns[1][n][i] = mix(state += 0x9e3779b97f4a7c15u);
    }
}

static UNUSED const uint64_t *pattern_of(enum contents contents, uint64_t number)
{
    uint64_t random = mix(number + 1);
    int noise = contents == NOISE || (contents == HALF && (random >> 32 & 1));
    return patterns[noise][random % PATTERNS];
}

static UNUSED void fill_page(void *page, enum contents contents, uint64_t number)
{
    uint64_t *to = page;
    memcpy(to, pattern_of(contents, number), PAGE);
    to[0] = to[WORDS - 1] = number;
}

static UNUSED int page_is_wrong(const void *page, enum contents contents, uint64_t number)
{
    const uint64_t *at = page, *pattern = pattern_of(contents, number);
    return at[0] != number || at[WORDS - 1] != number ||
           memcmp(at + 1, pattern + 1, (WORDS - 2) * sizeof *at);
}

static UNUSED enum contents contents_named(const char *name)
{
    static const char *const names[] = {"text", "half", "noise"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) return i;
    fprintf(stderr, "no such contents: %s\n", name);
    exit(2);
}

/* Tells the process's number, and waits to be let go. */
static UNUSED void hello(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("{\"step\":\"hello\",\"pid\":%d}\n", getpid());
    if (getchar() == EOF) exit(2);
}

#endif

/* Pages that prove themselves, for `verify.c`: every word follows from the seed, the page's number and a
 * sequence number that grows with every write. Most pages compress about six to one; some hold
 * nothing but noise, some one word all over, some almost nothing, so that every way to keep a page is
 * walked. A page that was never written (sequence 0) is zero.
 *
 * A page that is not what it must be ends the program with all that can be told: who looked, when,
 * which word, whether the page is stale, another one, torn or zero, whether it still is wrong a moment
 * later, and what the kernel and the pager say of it. */
#ifndef VERIFY_PAGES_H
#define VERIFY_PAGES_H

#include "watchdog.h"
#include <dlfcn.h>

struct image {
    uint64_t base, tag;
    unsigned kind;
};

enum { NOISE, SAME, SPARSE, PLAIN };

static inline struct image image_of(uint64_t id, uint64_t sequence) {
    uint64_t base = mix(seed * 0x9E3779B97F4A7C15u + id * 0xC2B2AE3D27D4EB4Fu + sequence * 0x165667B19E3779F9u);
    unsigned kind = base & 63;
    return (struct image){base, id << 32 ^ sequence, kind == 0 ? NOISE : kind < 3 ? SAME : kind < 6 ? SPARSE : PLAIN};
}

static inline uint64_t image_word(const struct image *m, unsigned i) {
    switch (m->kind) {
    case NOISE: return mix(m->base + i);
    case SAME: return m->tag;
    case SPARSE: return i % 64 == 7 ? mix(m->base + i) : i % 64 == 8 ? m->tag : 0;
    default: return i % 8 ? m->tag : mix(m->base + i);
    }
}

static void write_page(void *page, uint64_t id, uint64_t sequence) {
    volatile uint64_t *words = page;
    struct image m = image_of(id, sequence);
    if (m.kind == PLAIN)
        for (unsigned i = 0; i < WORDS; i += 8) {
            words[i] = mix(m.base + i);
            for (unsigned k = 1; k < 8; k++) words[i + k] = m.tag;
        }
    else
        for (unsigned i = 0; i < WORDS; i++) words[i] = image_word(&m, i);
}

/* First word of a page that is not as it must be, or -1. */
static int wrong_word(const void *page, uint64_t id, uint64_t sequence) {
    const uint64_t *words = page;
    if (!sequence) {
        for (unsigned i = 0; i < WORDS; i++)
            if (words[i]) return i;
        return -1;
    }
    struct image m = image_of(id, sequence);
    if (m.kind == PLAIN) {
        for (unsigned i = 0; i < WORDS; i += 8) {
            uint64_t differs = words[i] ^ mix(m.base + i);
            for (unsigned k = 1; k < 8; k++) differs |= words[i + k] ^ m.tag;
            if (differs) break;
            if (i == WORDS - 8) return -1;
        }
    }
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != image_word(&m, i)) return i;
    return -1;
}

/* What a wrong page looks like. */
static void classify(const uint64_t *words, uint64_t id, uint64_t sequence, char *text, size_t size) {
    unsigned wrong = 0, zero = 0;
    struct image m = image_of(id, sequence);
    for (unsigned i = 0; i < WORDS; i++) {
        wrong += words[i] != (sequence ? image_word(&m, i) : 0);
        zero += words[i] == 0;
    }
    int n = snprintf(text, size, "%u words differ, %u are zero", wrong, zero);
    for (uint64_t s = sequence > 8 ? sequence - 8 : 1; s <= sequence + 1; s++)
        if (s != sequence && wrong_word(words, id, s) < 0) {
            snprintf(text + n, size - n, "; it is this page with sequence number %llu", (unsigned long long)s);
            return;
        }
    for (unsigned i = 1; i < 10; i++) {
        uint64_t other = words[i] >> 32, s = words[i] & 0xFFFFFFFF;
        if (other != id && wrong_word(words, other, s) < 0) {
            snprintf(text + n, size - n, "; it is page %#llx with sequence number %llu", (unsigned long long)other,
                     (unsigned long long)s);
            return;
        }
    }
    if (zero != WORDS) snprintf(text + n, size - n, "; it is no whole page of ours");
}

/* The mapping of an address, and its line in the page map. */
static void tell_kernel(uintptr_t at) {
    uint64_t entry = 0;
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (map >= 0 && pread(map, &entry, 8, at / PAGE * 8) == 8)
        dprintf(1, "kernel: page map %#llx (%s%s)\n", (unsigned long long)entry, entry >> 63 ? "present" : "missing",
                entry >> 56 & 1 ? ", exclusive" : "");
    if (map >= 0) close(map);
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512];
    int found = 0;
    unsigned long from, to;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) found = from <= at && at < to;
        if (found && (strchr(line, '-') || !strncmp(line, "Anonymous:", 10) || !strncmp(line, "VmFlags:", 8)))
            dprintf(1, "kernel: %s", line);
    }
    if (maps) fclose(maps);
}

static void tell_pager(uintptr_t at) {
    size_t (*describe)(const void *, char *, size_t) = dlsym(RTLD_DEFAULT, "coldpress_describe_page");
    char text[256];
    if (describe) dprintf(1, "pager: %.*s\n", (int)describe((void *)at, text, sizeof text), text);
    else dprintf(1, "pager: there is none\n");
}

static _Noreturn void wrong_page(const void *page, uint64_t id, uint64_t sequence, const char *when, unsigned thread) {
    static _Atomic int telling;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (atomic_exchange(&telling, 1)) pause(); /* one at a time; the other one ends the program */
    const uint64_t *words = page;
    int i = wrong_word(page, id, sequence);
    struct image m = image_of(id, sequence);
    uint64_t expected = i < 0 || !sequence ? 0 : image_word(&m, i), seen = i < 0 ? 0 : words[i];
    char text[256];
    if (i < 0) snprintf(text, sizeof text, "right at the second look");
    else classify(words, id, sequence, text, sizeof text);
    dprintf(1, "MISMATCH: seed %llu thread %u (%s), page %#llx at %p, sequence number %llu\n",
            (unsigned long long)seed, thread, when, (unsigned long long)id, page, (unsigned long long)sequence);
    dprintf(1, "word %d: expected %#llx, seen %#llx; %s\n", i, (unsigned long long)expected, (unsigned long long)seen, text);
    tell_pager((uintptr_t)page);
    tell_kernel((uintptr_t)page);
    sleep_ms(200);
    dprintf(1, "200 ms later it is %s\n", wrong_word(page, id, sequence) < 0 ? "right" : "still wrong");
    tell_pager((uintptr_t)page);
    show_statistics();
    die("seed %llu thread %u: %s: page %#llx at %p word %d: expected %#llx, found %#llx; %s", (unsigned long long)seed,
        thread, when, (unsigned long long)id, page, i, (unsigned long long)expected, (unsigned long long)seen, text);
}

#endif

/* Pages of hexadecimal digits, most of which are never used again once they are written, while a second
 * thread reads and writes others at random, and drops some: what stays compressed is stored anew, denser,
 * and every page must hold what was written last. Arguments: seed, MiB, milliseconds. */
#include "common.h"

enum { USED_OF = 16, PAUSE_EVERY = 64 };
#define DROPPED (1u << 31)

static char *region;
static size_t pages;
static uint64_t until;
static uint32_t *versions; /* what was written last, and whether it was dropped since */

static uint64_t digits_of(uint64_t id, uint64_t version, unsigned i) {
    static const char digits[] = "0123456789abcdef";
    uint64_t bits = mix(seed + id * 0xC2B2AE3D27D4EB4Fu + version * 0x165667B19E3779F9u + i), word = 0;
    for (int n = 0; n < 4; n++) word |= (uint64_t)digits[bits >> 4 * n & 15] << 8 * n;
    return word | 0x0000203a00000000u;
}

static void write_page(size_t id, uint32_t version) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    for (unsigned i = 0; i < WORDS; i++) words[i] = digits_of(id, version, i);
}

static void check_page(size_t id, uint32_t version, const char *when) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t expected = version & DROPPED ? 0 : digits_of(id, version, i);
        if (words[i] != expected)
            die("%s: page %zu at %p word %u: expected %#llx (version %u), found %#llx", when, id, (void *)words, i,
                (unsigned long long)expected, version, (unsigned long long)words[i]);
    }
}

static void *use(void *arg) {
    (void)arg;
    uint64_t state = seed;
    for (unsigned n = 1; now_ms() < until; n++) {
        size_t id = rng(&state) % (pages / USED_OF) * USED_OF;
        check_page(id, versions[id], "used");
        switch (rng(&state) % 4) {
        case 0:
            versions[id] = (versions[id] & ~DROPPED) + 1;
            write_page(id, versions[id]);
            break;
        case 1:
            if (madvise(region + id * PAGE, PAGE, MADV_DONTNEED)) die_errno("madvise");
            versions[id] |= DROPPED;
        }
        if (n % PAUSE_EVERY == 0) sleep_ms(20);
    }
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB;
    until = now_ms() + argument(argc, argv, 3, 15000);
    pages = bytes / PAGE;
    region = map_region(bytes);
    versions = calloc(pages, sizeof *versions);
    if (!versions) die_errno("calloc");
    for (size_t id = 0; id < pages; id++) write_page(id, versions[id] = 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, NULL)) die_errno("pthread_create");
    pthread_join(thread, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t id = 0; id < pages; id++) check_page(id, versions[id], round ? "again" : "at the end");
    printf("OK %zu MiB\n", bytes / MIB);
}

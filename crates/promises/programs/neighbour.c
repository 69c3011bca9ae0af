/* One of two processes that have nothing in common but the machine: each is steered by lines on its
 * standard input and answers each with a line of JSON. One plays the secret keeper, whose memory is
 * brought into a state; the other the attacker, who times touches of its own memory.
 *
 *   fill text|noise|zero   writes the region: compressible, incompressible, or zeros
 *   away                   presses with other memory until every page of the region is out, for ten seconds at most
 *   press                  presses for a while, whatever becomes of the region
 *   churn MS               presses for so long, and answers before it begins
 *   measure                times touches of the region, of resident pages, of fresh ones
 *   end
 *
 * Arguments: seed, MiB of the region, MiB of the ballast that presses. */
#include "common.h"
#include <sys/resource.h>

enum { HITS = 64, FRESH = 256, SAMPLES = 1 << 16, STREAMS = 8, SPARED = 8 };

/* The page at each multiple of it never leaves: where libc has an arena there, it writes to its head in the child of a
 * fork before any hook runs. */
#define ARENA (64 * MIB)

static char *region;
static size_t pages, ballast_mib;
static double samples[SAMPLES];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fill(const char *what) {
    static uint64_t version;
    version++;
    for (size_t i = 0; i < pages; i++) {
        uint64_t *words = (uint64_t *)(region + i * PAGE);
        fill_page(words, i, version);
        if (what[0] == 'z') memset(words, 0, PAGE);
        for (unsigned w = 0; what[0] == 'n' && w < WORDS; w++) words[w] = mix(version << 40 ^ i * WORDS ^ w);
    }
}

/* Writes other memory, all of which is away again at the end. */
static size_t press(size_t all_of, unsigned at_least_ms, unsigned at_most_ms) {
    char *ballast = map_region(ballast_mib * MIB);
    uint64_t begun = now_ms();
    size_t absent = 0, most = 0;
    uint64_t most_at = begun;
    for (size_t round = 0;; round++) {
        fill_region(ballast + round % ballast_mib * MIB, MIB, 1u << 30, round);
        uint64_t passed = now_ms() - begun;
        absent = absent_pages(region, pages * PAGE);
        if (absent > most) most = absent, most_at = begun + passed;
        /* The few that are left have second chances: more of the same does not bring them out. */
        if (all_of == pages && absent + pages / SPARED >= pages && begun + passed - most_at > 500) break;
        if ((absent >= all_of && passed >= at_least_ms) || passed >= at_most_ms) break;
        if (round % 4 == 3) sleep_ms(1);
    }
    munmap(ballast, ballast_mib * MIB);
    return absent;
}

static int by_size(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static void tell(const char *name, size_t count) {
    qsort(samples, count, sizeof *samples, by_size);
    printf(",\"%s\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f}", name, count ? samples[count / 2] : 0.0,
           count ? samples[count * 9 / 10] : 0.0, count ? samples[count * 99 / 100] : 0.0);
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void measure(void) {
    static unsigned char present[SAMPLES], before_that[SAMPLES];
    size_t absent = 0;
    uint64_t sum = 0;
    /* All over the region, so that none is brought back ahead of being touched: of 2048 pages, none is near
     * (32 pages) one of the 33 before it. By chance some would be, and even steps among them. The pager still
     * knows how `fill` went through the region and goes on with that; as many touches make it forget. */
    for (size_t n = 0; n < STREAMS; n++) sum += *(volatile uint64_t *)(region + n * 1265 % pages * PAGE);
    /* What was to be brought back for them is back when nothing changes any more. */
    for (int looks = 0; looks < 2 || (looks < 100 && memcmp(before_that, present, pages)); looks++) {
        memcpy(before_that, present, pages);
        sleep_ms(5);
        if (mincore(region, pages * PAGE, present)) die_errno("mincore");
    }
    memset(samples, 1, pages * sizeof *samples); /* no fault of its own below */
    long before = faults();
    for (size_t n = 0; n < pages; n++) { /* each once: a power of two */
        size_t i = n * 1265 % pages;
        if (present[i] & 1) continue;
        double begun = now_ns();
        sum += *(volatile uint64_t *)(region + i * PAGE);
        samples[absent++] = now_ns() - begun;
    }
    long taken = faults() - before;
    printf("{\"step\":\"measure\",\"absent\":%zu,\"faults\":%ld", absent, taken);
    tell("compressed", absent);
    size_t count = 0;
    for (size_t i = 0; i + HITS <= pages; i += HITS) {
        double begun = now_ns();
        for (size_t n = i; n < i + HITS; n++) sum += *(volatile uint64_t *)(region + n * PAGE + 64);
        samples[count++] = (now_ns() - begun) / HITS;
    }
    tell("resident", count);
    char *fresh = map_region(FRESH * PAGE);
    madvise(fresh, FRESH * PAGE, MADV_NOHUGEPAGE);
    for (count = 0; count < FRESH; count++) {
        double begun = now_ns();
        *(volatile uint64_t *)(fresh + count * PAGE) = sum;
        samples[count] = now_ns() - begun;
    }
    munmap(fresh, FRESH * PAGE);
    tell("fresh", count);
    printf("}\n");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    pages = argument(argc, argv, 2, 8) * MIB / PAGE;
    ballast_mib = argument(argc, argv, 3, 32);
    if (pages > ARENA / PAGE / 2) die("a region of 32 MiB at most");
    /* Twice as much, of which one half or the other has no such page. */
    region = map_region(2 * pages * PAGE);
    if (((uintptr_t)region - 1) / ARENA != ((uintptr_t)region + pages * PAGE - 1) / ARENA) region += pages * PAGE;
    madvise(region, pages * PAGE, MADV_NOHUGEPAGE);
    fill("text");
    printf("{\"step\":\"hello\",\"pid\":%d}\n", getpid());
    char line[64];
    while (fflush(stdout), fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "fill ", 5)) {
            fill(line + 5);
            printf("{\"step\":\"fill\"}\n");
        } else if (!strcmp(line, "away")) {
            printf("{\"step\":\"away\",\"absent\":%zu}\n", press(pages, 0, 10000));
        } else if (!strcmp(line, "press")) {
            printf("{\"step\":\"press\",\"absent\":%zu}\n", press(pages, 150, 150));
        } else if (!strncmp(line, "churn ", 6)) {
            printf("{\"step\":\"churn\"}\n");
            fflush(stdout);
            unsigned ms = strtoul(line + 6, NULL, 10);
            press(pages, ms, ms);
        } else if (!strcmp(line, "measure")) {
            measure();
        } else if (!strcmp(line, "end")) {
            return 0;
        } else {
            die("what is `%s`?", line);
        }
    }
    return 0;
}

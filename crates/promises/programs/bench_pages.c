/*
 * bench_pages: touch pages of a large mapping at random and time every touch.
 *
 * The same program runs natively, under `coldpress run` and under a memory limit with swap; it
 * knows nothing of either. Whoever started it steers it by lines on its standard input, one
 * for each step, and reads one line of JSON for each step from its standard output:
 *
 *   {"step":"hello","pid":N}        before any memory is taken
 *   {"step":"filled",...}           the mapping is filled
 *   {"step":"touched",...}          pages were touched at random for the given time
 *   {"step":"verified",...}         every byte of every page was compared
 *
 * A page is 64 records of 64 bytes as a program keeps them on its heap: pointers that share
 * their upper bytes, counters, small flags, prices, text out of a small vocabulary, a hash.
 * With liblz4 each page alone compresses about 2.3:1. Everything follows from the seed and the
 * page's number, so that pages need not be kept to be compared. The last word of a page is its
 * check word: it holds a hash of the page's number and of how often the page was written.
 *
 * A touch reads the check word (3 of 4) or writes the next one (1 of 4). Touches that take
 * longer than the threshold are counted as faults, in a histogram with 32 buckets to an octave
 * (percentiles are at most 3 % too high). Time is the time stamp counter, fenced on both sides
 * and calibrated against CLOCK_MONOTONIC; its reading also tells the CPU, so that migrations
 * are seen at every touch.
 *
 * usage: bench_pages MIB SECONDS SEED THRESHOLD_NS
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { PAGE = 4096, WORDS = PAGE / 8, CHECK = WORDS - 1, RECORD_WORDS = 8 };
enum { SUB = 32, OCTAVES = 50, BUCKETS = SUB * OCTAVES };

static uint64_t *memory;
static uint32_t *versions;
static uint64_t pages, seed;
static double ns_per_tick;
static uint64_t histogram[BUCKETS];

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t check_word(uint64_t page, uint32_t version)
{
    return mix(seed + page * 0x9e3779b97f4a7c15u) ^ mix(version + 1);
}

static const char *const vocabulary[32] = {
    "account ", "archive ", "balance ", "channel ", "checkout", "customer", "delivery", "election",
    "february", "gateway ", "hardware", "invoice ", "keyboard", "language", "location", "material",
    "network ", "november", "operator", "password", "pending ", "platform", "position", "printer ",
    "question", "register", "schedule", "security", "shipping", "standard", "terminal", "transfer",
};

/* Writes page `page` at `to`, all but the check word. Pages differ in how full their records
 * are: in the sparsest most optional fields are empty, in the densest few are. */
static void make_page(uint64_t page, uint64_t *to)
{
    uint64_t state = mix(seed ^ (page * 0xd6e8feb86659fd93u));
    uint64_t heap = 0x00007f0000000000u | ((page >> 8) << 20);
    uint64_t density = state & 7, parent = heap | (state >> 8 & 0xffff0);
    for (int record = 0; record < WORDS / RECORD_WORDS; record++) {
        uint64_t *word = to + record * RECORD_WORDS;
        uint64_t a = mix(state += 0x9e3779b97f4a7c15u);
        uint64_t b = mix(state += 0x9e3779b97f4a7c15u);
        if ((b >> 56 & 7) == 0)
            parent = heap | (b & 0xffff0);
        word[0] = heap | (a & 0xffff0);                               /* next */
        word[1] = parent;                                             /* shared by a few */
        word[2] = page * 64 + record;                                 /* identifier */
        word[3] = (a >> 44 & 15) == 0;                                /* a flag, rarely set */
        word[4] = 1700000000000u + (page << 8) + (b & 0xff);          /* time in ms */
        memcpy(&word[5], vocabulary[b >> 24 & 31], 8);                /* text, of two parts */
        word[6] = 0;
        if ((a >> 48 & 7) < density)
            memcpy(&word[6], vocabulary[b >> 29 & 31], 8);
        word[7] = (a >> 51 & 15) < density ? mix(b) : b >> 32 & 0xff; /* a hash or a small sum */
    }
}

#if defined(__x86_64__)
/* Ticks, and the CPU they were read on. */
static inline uint64_t ticks(unsigned *cpu)
{
    unsigned processor;
    uint64_t now = __rdtscp(&processor);
    _mm_lfence();
    *cpu = processor & 0xfff;
    return now;
}
#else
#error "Coldpress supports x86_64"
#endif

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void calibrate(void)
{
    unsigned cpu;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double t0 = now_ns();
        uint64_t c0 = ticks(&cpu);
        while (now_ns() - t0 < 1e7) {}
        double t1 = now_ns();
        uint64_t c1 = ticks(&cpu);
        double rate = (t1 - t0) / (double)(c1 - c0);
        /* An interruption between the two readings makes the ratio smaller or larger by luck:
         * the run with the shortest time is the undisturbed one. */
        if (t1 - t0 < best) {
            best = t1 - t0;
            ns_per_tick = rate;
        }
    }
}

static unsigned bucket(uint64_t tick_count)
{
    if (tick_count < SUB)
        return tick_count;
    unsigned octave = 63 - __builtin_clzll(tick_count);
    unsigned at = (octave - 4) * SUB + ((tick_count >> (octave - 5)) & (SUB - 1));
    return at < BUCKETS ? at : BUCKETS - 1;
}

/* Smallest number of ticks too long for bucket `at`, in nanoseconds. */
static double upper_ns(unsigned at)
{
    if (at < SUB)
        return (at + 1) * ns_per_tick;
    unsigned octave = at / SUB + 4;
    uint64_t width = 1ull << (octave - 5);
    return ((1ull << octave) + (at % SUB + 1) * width) * ns_per_tick;
}

static double quantile_ns(double share)
{
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += histogram[i];
    uint64_t wanted = (uint64_t)(total * share);
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > wanted)
            return upper_ns(i);
    return 0;
}

static double seconds(struct timeval t)
{
    return t.tv_sec + t.tv_usec * 1e-6;
}

static void wait_for_line(void)
{
    char line[64];
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(3);
}

static void fill(void)
{
    double begun = now_ns();
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t *at = memory + page * WORDS;
        make_page(page, at);
        at[CHECK] = check_word(page, 0);
    }
    printf("{\"step\":\"filled\",\"pages\":%" PRIu64 ",\"seconds\":%.6f}\n", pages,
           (now_ns() - begun) / 1e9);
}

static void touch(double duration, double threshold_ns)
{
    struct rusage before, after;
    uint64_t touches = 0, slow = 0, slow_ticks = 0, wrong = 0, migrations = 0, longest = 0;
    uint64_t threshold = threshold_ns / ns_per_tick;
    uint64_t state = mix(seed ^ 0x746f756368u);
    unsigned cpu, last, first = sched_getcpu();
    getrusage(RUSAGE_SELF, &before);
    uint64_t begun = ticks(&last);
    uint64_t end = begun + (uint64_t)(duration * 1e9 / ns_per_tick);
    for (;;) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t page = (uint64_t)(((unsigned __int128)state * pages) >> 64);
        int writes = (state & 3) == 0;
        volatile uint64_t *word = memory + page * WORDS + CHECK;
        uint64_t expected = check_word(page, writes ? ++versions[page] : versions[page]);
        _mm_mfence();
        uint64_t t0 = ticks(&cpu);
        if (writes)
            *word = expected;
        else
            wrong += *word != expected;
        _mm_mfence();
        uint64_t t1 = ticks(&cpu);
        touches++;
        migrations += cpu != last;
        last = cpu;
        if (t1 - t0 > threshold) {
            histogram[bucket(t1 - t0)]++;
            slow++;
            slow_ticks += t1 - t0;
            if (t1 - t0 > longest)
                longest = t1 - t0;
        }
        if (t1 >= end)
            break;
    }
    unsigned finish;
    double elapsed = (ticks(&finish) - begun) * ns_per_tick / 1e9;
    getrusage(RUSAGE_SELF, &after);
    printf("{\"step\":\"touched\",\"seconds\":%.6f,\"touches\":%" PRIu64 ",\"wrong\":%" PRIu64
           ",\"threshold_ns\":%.0f,\"slow\":%" PRIu64 ",\"slow_p50_ns\":%.0f,\"slow_p99_ns\":%.0f,"
           "\"slow_mean_ns\":%.1f,\"slow_longest_ns\":%.0f,\"user_seconds\":%.6f,"
           "\"system_seconds\":%.6f,\"minor_faults\":%ld,\"major_faults\":%ld,"
           "\"first_cpu\":%u,\"last_cpu\":%u,\"migrations\":%" PRIu64 "}\n",
           elapsed, touches, wrong, threshold_ns, slow, quantile_ns(0.5), quantile_ns(0.99),
           slow ? slow_ticks * ns_per_tick / slow : 0.0, longest * ns_per_tick,
           seconds(after.ru_utime) - seconds(before.ru_utime),
           seconds(after.ru_stime) - seconds(before.ru_stime),
           after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt,
           first, finish, migrations);
}

static void verify(void)
{
    static uint64_t expected[WORDS];
    uint64_t wrong = 0;
    for (uint64_t page = 0; page < pages; page++) {
        make_page(page, expected);
        expected[CHECK] = check_word(page, versions[page]);
        wrong += memcmp(expected, memory + page * WORDS, PAGE) != 0;
    }
    printf("{\"step\":\"verified\",\"pages\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", pages, wrong);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_pages MIB SECONDS SEED THRESHOLD_NS\n");
        return 2;
    }
    pages = strtoull(argv[1], NULL, 10) * 256;
    seed = strtoull(argv[3], NULL, 10);
    printf("{\"step\":\"hello\",\"pid\":%d}\n", getpid());
    wait_for_line();

    calibrate();
    size_t bytes = pages * PAGE;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    /* Pages of 4 KiB everywhere, so that all runs are alike. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    versions = calloc(pages, sizeof *versions);
    if (!versions)
        fail("calloc");
    fill();
    wait_for_line();
    touch(strtod(argv[2], NULL), strtod(argv[4], NULL));
    wait_for_line();
    verify();
    wait_for_line();
    return 0;
}

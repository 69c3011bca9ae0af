/* Memory that does not fit the budget, or no longer does. Arguments: seed, MiB, "noise" or "text", seconds
 * and, if the budget is to be changed meanwhile, the coldpress command and what to set.
 *
 * Fills memory, has the budget set, goes through all of it (noise) or the first MiB (text) until the time is
 * over, and checks every page. */
#include "common.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t word(size_t index, int noise) {
    uint64_t x = (index + seed) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return noise || index % 16 == 0 ? x : 7;
}

int main(int argc, char **argv) {
    if (argc < 5) die("usage: seed MiB noise|text seconds [coldpress setting]");
    seed = strtoull(argv[1], NULL, 10);
    size_t words = strtoull(argv[2], NULL, 10) * MIB / 8;
    int noise = strcmp(argv[3], "noise") == 0;
    uint64_t until = strtoull(argv[4], NULL, 10) * 1000000000u;
    uint64_t *memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die_errno("mmap");
    for (size_t n = 0; n < words; n++) memory[n] = word(n, noise);
    if (argc > 6 && getenv("PROMISES_MANAGED")) {
        char command[4096];
        snprintf(command, sizeof command, "'%s' set %d %s >/dev/null", argv[5], getpid(), argv[6]);
        if (system(command) != 0) die("%s failed", command);
    }
    until += now_ns();
    uint64_t rounds = 0;
    size_t touched = noise ? words : MIB / 8;
    while (now_ns() < until) {
        for (size_t n = 0; n < touched; n += 512)
            if (*(volatile uint64_t *)&memory[n] != word(n, noise)) die("word %zu is wrong", n);
        usleep(20000);
        rounds++;
    }
    dprintf(2, "the program has done its work\n");
    for (size_t n = 0; n < words; n++)
        if (memory[n] != word(n, noise)) die("word %zu is wrong", n);
    printf("OK %llu rounds\n", (unsigned long long)rounds);
    return 0;
}

/* Hazard: fork while other threads write, allocate and hold stdio buffers. The pager's locks and
 * threads are not in the child; the store is. Each child verifies a static region, the counters
 * of the writers (never below what was seen before the fork: zero would be), the malloc chunks
 * of every arena, and uses stdio and malloc anew. Arguments: seed, MiB, forks. */
#include "common.h"

enum { WRITERS = 3, CHUNKS = 400, CHUNK = 3000 };

static char *fixed;
static size_t bytes;
static _Atomic uint64_t *counters[WRITERS]; /* one word a page */
static size_t counter_pages = 512;
static unsigned char *chunks[WRITERS][CHUNKS];
static _Atomic int ready, stop;

static void *write_and_allocate(void *context) {
    unsigned me = (uintptr_t)context;
    for (unsigned i = 0; i < CHUNKS; i++) { /* lives on, in this thread's arena */
        chunks[me][i] = malloc(CHUNK);
        memset(chunks[me][i], 1 + (me * 37 + i) % 255, CHUNK);
    }
    ready++;
    uint64_t state = seed + me, value = 0;
    while (!stop) {
        value++;
        for (size_t p = 0; p < counter_pages; p++) atomic_store(&counters[me][p * WORDS], value);
        char *scratch = malloc(1000 + rng(&state) % 200000);
        scratch[500] = 1;
        free(scratch);
    }
    return NULL;
}

static int child(const uint64_t *before, FILE *inherited) {
    verify_region(fixed, bytes, 0, 7, "child: region");
    for (unsigned w = 0; w < WRITERS; w++) {
        for (size_t p = 0; p < counter_pages; p++) {
            uint64_t found = atomic_load(&counters[w][p * WORDS]);
            if (found < before[w] || found > before[w] + (1ull << 40))
                die("child: counter page %zu of writer %u at %p: at least %llu expected, found %llu", p, w,
                    (void *)&counters[w][p * WORDS], (unsigned long long)before[w], (unsigned long long)found);
        }
        for (unsigned i = 0; i < CHUNKS; i++) {
            for (unsigned k = 0; k < CHUNK; k++)
                if (chunks[w][i][k] != 1 + (w * 37 + i) % 255)
                    die("child: chunk %u of writer %u at %p byte %u: found %d", i, w, (void *)chunks[w][i], k,
                        chunks[w][i][k]);
            free(chunks[w][i]);
        }
    }
    for (unsigned i = 0; i < 200; i++) { /* malloc lives */
        char *p = malloc(50 + i * 1000);
        memset(p, 1, 50 + i * 1000);
        if (i % 2) free(p);
    }
    fprintf(inherited, "world"); /* the unflushed half was in the parent's buffer */
    fflush(inherited);
    rewind(inherited);
    char line[64] = "";
    if (!fgets(line, sizeof line, inherited) || strcmp(line, "hello world")) die("child: stdio gave \"%s\"", line);
    for (size_t at = 0; at < bytes; at += PAGE) fill_page(fixed + at, at / PAGE, 8);
    verify_region(fixed, bytes, 0, 8, "child: own version");
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 20) * MIB;
    long forks = argument(argc, argv, 3, 6);
    fixed = map_region(bytes);
    fill_region(fixed, bytes, 0, 7);
    pthread_t writers[WRITERS];
    for (uintptr_t w = 0; w < WRITERS; w++) {
        counters[w] = map_region(counter_pages * PAGE);
        writers[w] = start_thread(write_and_allocate, (void *)w);
    }
    while (ready < WRITERS) sleep_ms(1);
    for (long i = 0; i < forks; i++) {
        settle(fixed, bytes);
        FILE *file = tmpfile();
        if (!file) die_errno("tmpfile");
        fprintf(file, "hello ");
        uint64_t before[WRITERS];
        for (unsigned w = 0; w < WRITERS; w++) {
            uint64_t least = UINT64_MAX;
            for (size_t p = 0; p < counter_pages; p++) {
                uint64_t found = atomic_load(&counters[w][p * WORDS]);
                if (found < least) least = found;
            }
            before[w] = least;
        }
        pid_t pid = fork();
        if (pid < 0) die_errno("fork");
        if (pid == 0) _exit(child(before, file));
        if (wait_exit(pid, "child")) return 1;
        fclose(file);
    }
    stop = 1;
    for (unsigned w = 0; w < WRITERS; w++) join_thread(writers[w]);
    verify_region(fixed, bytes, 0, 7, "parent after its children");
    printf("OK %ld forks beside %d writers\n", forks, WRITERS);
}

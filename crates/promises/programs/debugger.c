/* Hazard: a debugger. It stops all threads, the pager's too, and reads memory that is not there: it must get an
 * error or the right bytes and not wait for those it has stopped; when it goes, everything goes on. The
 * program has gdb look at itself: cold pages, the stacks of all threads, a call by name of a variable that
 * was written just before. gdb itself has no pager. Arguments: seed, MiB, rounds. */
#include "common.h"

static _Atomic int stop;
static char *region;
static size_t bytes;
volatile uint64_t debugger_sees = 0;

static void *touch(void *unused) {
    uint64_t state = seed + 1;
    while (!stop) {
        size_t page = rng(&state) % ((bytes - MIB) / PAGE); /* the last ones are the debugger's */
        verify_page(region + page * PAGE, page, 1, "while a debugger comes and goes");
    }
    return unused;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 16) * MIB;
    long rounds = argument(argc, argv, 3, 3), right = 0, refused = 0, away = 0;
    if (access("/usr/bin/gdb", X_OK)) skip("/usr/bin/gdb is missing (apt-get install gdb)");
    region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    pthread_t toucher = start_thread(touch, NULL);
    for (long round = 0; round < rounds; round++) {
        char *last = region + bytes - MIB;
        settle(region, bytes), settle(last, MIB);
        debugger_sees = mix(seed + round);
        char command[512], line[256], expected[32];
        size_t page = (last - region) / PAGE;
        while (managed() && page < bytes / PAGE - 1 && !absent_pages(region + page * PAGE, PAGE)) page++;
        away += absent_pages(region + page * PAGE, PAGE);
        snprintf(command, sizeof command,
                 "env -u LD_PRELOAD timeout 25 gdb -nx -batch -p %d -ex 'p/x debugger_sees' -ex 'x/1gx %p' -ex 'thread apply all bt 3' "
                 "-ex detach 2>&1",
                 getpid(), region + page * PAGE);
        snprintf(expected, sizeof expected, "%#llx", (unsigned long long)debugger_sees);
        FILE *gdb = popen(command, "r");
        int seen = 0, attached = 1, threads = 0;
        while (gdb && fgets(line, sizeof line, gdb)) {
            unsigned long at;
            unsigned long long word;
            seen |= strstr(line, expected) != NULL;
            attached &= !strstr(line, "ptrace: Operation not permitted");
            threads += !strncmp(line, "Thread ", 7);
            refused += strstr(line, "Cannot access memory") != NULL;
            if (sscanf(line, "%lx:\t0x%llx", &at, &word) == 2 && at == (uintptr_t)region + page * PAGE) {
                if (word != word_of(page, 1, 0)) die("gdb was told %#llx of page %zu", word, page);
                right++;
            }
        }
        int status = gdb ? pclose(gdb) : -1;
        if (!attached) skip("ptrace is refused");
        if (status) die("gdb: status %#x (124 << 8: it hung)", status);
        if (!seen || threads < 2) die("gdb saw %d threads, and the variable: %d", threads, seen);
    }
    stop = 1;
    join_thread(toucher);
    verify_region(region, bytes, 0, 1, "at the end");
    insist_away(away, "what the debugger reads");
    printf("OK %ld rounds, %ld pages told right, %ld refused\n", rounds, right, refused);
}

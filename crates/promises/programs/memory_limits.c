/* Hazard: limits of the address space and of data (RLIMIT_AS, RLIMIT_DATA). The program must get what the
 * limit leaves it, then ENOMEM and nothing worse; the pager has to keep what it compresses within memory that it
 * already has. Arguments: seed, MiB that the limits leave, milliseconds. */
#include "common.h"
#include <sys/resource.h>

enum { PIECE_PAGES = 64, MOST = 4096 };
static size_t away;

/* Bytes of a field of /proc/self/status. */
static size_t status_bytes(const char *field) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, field, strlen(field))) sscanf(line + strlen(field), ": %zu", &kib);
    if (status) fclose(status);
    return kib * 1024;
}

static void limit(int which, size_t bytes) {
    struct rlimit l = {bytes, RLIM_INFINITY};
    if (setrlimit(which, &l)) die_errno("setrlimit");
}

/* Maps and fills until the kernel refuses, while what was filled is evicted; then verifies all. */
static size_t fill_up(const char *which, size_t least) {
    static char *pieces[MOST];
    size_t n = 0;
    for (; n < MOST; n++) {
        pieces[n] = mmap(NULL, PIECE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[n] == MAP_FAILED) break;
        fill_region(pieces[n], PIECE_PAGES * PAGE, n * PIECE_PAGES, 1);
    }
    if (n == MOST) die("%s: no limit was met", which);
    if (errno != ENOMEM) die_errno(which);
    size_t bytes = n * PIECE_PAGES * PAGE;
    if (bytes < least) die("%s: %zu MiB could be had of %zu", which, bytes / MIB, least / MIB);
    if (malloc(1 << 30)) die("%s: malloc gave more than the limit leaves", which);
    sleep_ms(managed() ? 300 : 1);
    for (size_t i = 0; i < n; i++) away += absent_pages(pieces[i], PIECE_PAGES * PAGE);
    for (size_t i = 0; i < n; i++) verify_region(pieces[i], PIECE_PAGES * PAGE, i * PIECE_PAGES, 1, which);
    for (size_t i = 0; i < n; i++) munmap(pieces[i], PIECE_PAGES * PAGE);
    return bytes;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t left = argument(argc, argv, 2, 48) * MIB, filled = 0, rounds = 0;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 3000);
    char *cold = map_region(16 * MIB);
    fill_region(cold, 16 * MIB, 1 << 20, 1);
    settle(cold, 16 * MIB);
    do {
        limit(RLIMIT_AS, status_bytes("VmSize") + left);
        filled += fill_up("RLIMIT_AS", left / 2);
        limit(RLIMIT_AS, RLIM_INFINITY);
        limit(RLIMIT_DATA, status_bytes("VmData") + left);
        filled += fill_up("RLIMIT_DATA", left / 2);
        verify_region(cold, 16 * MIB, 1 << 20, 1, "what was cold before the limits");
        settle(cold, 16 * MIB);
        pid_t pid = fork(); /* with a limit in force: the child's pager has to live with it */
        if (pid == 0) {
            verify_region(cold, 16 * MIB, 1 << 20, 1, "child");
            settle(cold, 16 * MIB);
            verify_region(cold, 16 * MIB, 1 << 20, 1, "child, evicted again");
            _exit(0);
        }
        if (wait_exit(pid, "child")) die("a child failed");
        limit(RLIMIT_DATA, RLIM_INFINITY);
        rounds++;
    } while (now_ms() < deadline);
    insist_away(away, "memory at the limit");
    printf("OK %zu rounds, %zu MiB within limits\n", rounds, filled / MIB);
}

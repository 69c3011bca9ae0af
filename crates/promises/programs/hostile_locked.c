/* Hostile: everything that the process has mapped is locked behind the back of libc's wrappers: by the system call
 * mlockall, or by mlock of each line of /proc/self/maps. It must cost what the program has, and be kept: what is
 * locked is resident at every look. Arguments: seed, raw | maps | libc. */
#include "common.h"

enum { BYTES = 16 << 20, LOOKS = 40 };

/* Kilobytes of a field of /proc/self/status. */
static size_t status_kib(const char *field) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, field, strlen(field))) sscanf(line + strlen(field), ": %zu", &kib);
    if (status) fclose(status);
    return kib;
}

static void lock_each_mapping(void) {
    static struct { size_t start, end; } ranges[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], mode[5];
    size_t n = 0;
    while (maps && n < 4096 && fgets(line, sizeof line, maps))
        if (sscanf(line, "%zx-%zx %4s", &ranges[n].start, &ranges[n].end, mode) == 3 && mode[0] == 'r' &&
            !strstr(line, "[v"))
            n++;
    if (maps) fclose(maps);
    for (size_t i = 0; i < n; i++)
        /* What has gone since is not there to be locked. */
        if (mlock((void *)ranges[i].start, ranges[i].end - ranges[i].start) && errno != ENOMEM) skip("mlock is refused");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    const char *how = argc > 2 ? argv[2] : "raw";
    int at_once = argc > 3; /* before a pager that waits with starting has started */
    char *region = map_apart(BYTES);
    fill_region(region, at_once ? 4 * PAGE : BYTES, 0, 1);
    if (!at_once) settle(region, BYTES);
    if (!strcmp(how, "maps")) lock_each_mapping();
    else if (!strcmp(how, "libc") ? mlockall(MCL_CURRENT | MCL_FUTURE) : syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE))
        skip("mlockall is refused");
    if (at_once) fill_region(region, BYTES, 0, 1);
    char *later = map_apart(BYTES);
    fill_region(later, BYTES, 10000, 2);
    for (int look = 0; look < LOOKS; look++) {
        sleep_ms(10);
        size_t absent = absent_pages(region, BYTES);
        if (absent) die("%zu locked pages are not resident", absent);
        if (strcmp(how, "maps") && (absent = absent_pages(later, BYTES))) die("%zu later pages are not resident", absent);
    }
    size_t resident = status_kib("RssAnon"), locked = status_kib("VmLck");
    if (locked < BYTES / 1024) die("only %zu KiB are locked", locked);
    verify_region(region, BYTES, 0, 1, "locked");
    verify_region(later, BYTES, 10000, 2, "later");
    if (munlockall()) die_errno("munlockall");
    settle_under(region, BYTES, 32);
    verify_region(region, BYTES, 0, 1, "unlocked");
    verify_region(later, BYTES, 10000, 2, "later, unlocked");
    printf("OK %zu MiB resident, %zu MiB locked\n", resident / 1024, locked / 1024);
}

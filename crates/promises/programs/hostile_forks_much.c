/* Has memory evicted and forks: many children, one after the other, that end at once (one of them killed), then
 * some that live beside it for a while and do nothing. Arguments: MiB, short children, idle children. */
#include "common.h"
#include <dirent.h>

/* Entries of the directory, as far as the environment names one. */
static int entries(void) {
    const char *name = getenv("COLDPRESS_STATISTICS_DIR");
    DIR *directory = name ? opendir(name) : NULL;
    int count = 0;
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    if (directory) closedir(directory);
    return count;
}

static int end_of(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) die_errno("waitpid");
    return status;
}

int main(int argc, char **argv) {
    size_t bytes = argument(argc, argv, 1, 24) * MIB;
    long shorts = argument(argc, argv, 2, 300), idles = argument(argc, argv, 3, 0);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    settle(region, bytes);
    for (long n = 0; n < shorts; n++) {
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            if (n == 0) raise(SIGKILL);
            verify_page(region, 0, 0, "in the child");
            _exit(0);
        }
        int status = end_of(child);
        if (status != (n == 0 ? SIGKILL : 0)) die("child %ld ended with %#x", n, status);
    }
    int most = entries();
    pid_t idle[64];
    for (long n = 0; n < idles; n++) {
        idle[n] = fork();
        if (idle[n] == 0) {
            struct timespec second = {1, 0};
            nanosleep(&second, NULL);
            _exit(0);
        }
    }
    for (long n = 0; n < idles; n++)
        if (end_of(idle[n])) die("an idle child failed");
    verify_region(region, bytes, 0, 0, "in the parent");
    printf("%d entries\nOK %ld children\n", most, shorts + idles);
}

/* Story: the idle children of a prefork server burned a processor looking for pages to take: all that they have they
 * share with their parent, and shared pages cannot be taken. Arguments: seed, MiB, children, seconds until they are looked
 * at, seconds of that. Says how much of a processor they take together, in parts of a thousand, and how often the
 * threads of one of them wake in a second. */
#include "common.h"
#include <dirent.h>

#define CHILDREN 64

static uint64_t ticks(pid_t child) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (length <= 0) die_errno(path);
    close(file);
    text[length] = 0;
    unsigned long long user = 0, system = 0;
    sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
    return user + system;
}

/* How often the threads of a child have waited. */
static uint64_t waits(pid_t child) {
    char path[320], line[256];
    snprintf(path, sizeof path, "/proc/%d/task", child);
    DIR *threads = opendir(path);
    uint64_t all = 0, some;
    if (!threads) die_errno(path);
    for (struct dirent *thread; (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", child, thread->d_name);
        FILE *status = thread->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &some) == 1) all += some;
        if (status) fclose(status);
    }
    closedir(threads);
    return all;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 48) * MIB;
    int count = argument(argc, argv, 3, 3);
    long before = argument(argc, argv, 4, 2), during = argument(argc, argv, 5, 2);
    pid_t children[CHILDREN];
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    int channel[2];
    if (count > CHILDREN || pipe(channel)) die_errno("pipe");
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] < 0) die_errno("fork");
        if (children[i] == 0) {
            char byte;
            close(channel[1]);
            if (read(channel[0], &byte, 1) != 0) _exit(1);
            verify_region(region, bytes, 0, 1, "in the child");
            _exit(0);
        }
    }
    sleep_ms(before * 1000);
    uint64_t first = 0, last = 0, waited = 0;
    for (int i = 0; i < count; i++) first += ticks(children[i]), waited -= waits(children[i]);
    uint64_t began = now_ms();
    sleep_ms(during * 1000);
    for (int i = 0; i < count; i++) last += ticks(children[i]), waited += waits(children[i]);
    uint64_t took = now_ms() - began;
    close(channel[1]);
    for (int i = 0; i < count; i++)
        if (wait_exit(children[i], "child")) die("a child found something wrong");
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %llu per mille of a processor for %d idle children, each of which wakes %llu times a second\n",
           (unsigned long long)((last - first) * 10 * 1000 / took), count,
           (unsigned long long)(waited * 1000 / took / count));
}

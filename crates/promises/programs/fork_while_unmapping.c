/* Hazard: a process is forked while another of its threads unmaps memory, and the pager has not heard of
 * it yet. The child's pager takes up what was registered; what it maps itself must not come to lie in
 * the hole, where it would be taken for the program's. Arguments: seed, MiB, forks. */
#include "common.h"

enum { HOLE = 2 << 20 };

static _Atomic int done;

static void *unmaps(void *context) {
    (void)context;
    for (uint64_t version = 0; !done; version++) {
        char *region = map_region(HOLE);
        fill_region(region, HOLE, 1 << 20, version);
        sleep_ms(2);
        verify_region(region, HOLE / 4, 1 << 20, version, "memory that is unmapped soon");
        for (size_t part = 0; part < HOLE; part += HOLE / 16)
            if (munmap(region + part, HOLE / 16)) die_errno("munmap");
    }
    return NULL;
}

/* The run file, in which parent and child have a slot each: it is mapped once. */
static int mapped_statistics(void) {
    static char maps[1 << 18];
    int fd = open("/proc/self/maps", O_RDONLY), count = 0;
    if (fd < 0) die_errno("/proc/self/maps");
    size_t length = 0;
    for (ssize_t n; length < sizeof maps - 1 && (n = read(fd, maps + length, sizeof maps - 1 - length)) > 0; length += n) {
    }
    close(fd);
    for (const char *at = maps; (at = strstr(at, ".run\n")); at++) count++;
    for (const char *at = maps; (at = strstr(at, "/memfd:coldpress")); at++) count++;
    return count;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 4) * MIB;
    long forks = argument(argc, argv, 3, 300);
    char *kept = map_region(bytes);
    fill_region(kept, bytes, 0, 1);
    settle(kept, bytes);
    pthread_t thread = start_thread(unmaps, NULL);
    for (long n = 0; n < forks; n++) {
        pid_t pid = fork();
        if (pid < 0) die_errno("fork");
        if (pid == 0) {
            verify_region(kept, bytes, 0, 1, "child");
            if (mapped_statistics() != managed()) die("child: %d mappings of statistics", mapped_statistics());
            _exit(0);
        }
        if (wait_exit(pid, "child")) die("fork %ld: the child ended with a status that is not its own", n);
    }
    done = 1;
    join_thread(thread);
    verify_region(kept, bytes, 0, 1, "parent");
    printf("OK %ld forks\n", forks);
}

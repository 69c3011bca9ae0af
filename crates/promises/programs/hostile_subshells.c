/* Story: each child of a shell whose pages were away cost twenty times what it costs natively, although it did nothing
 * but end. Arguments: seed, MiB, children. Says what one costs, in microseconds of processor time of parent and child. */
#include "common.h"
#include <sys/resource.h>

static uint64_t cpu_us(void) {
    uint64_t sum = 0;
    for (int who = 0; who < 2; who++) {
        struct rusage usage;
        if (getrusage(who ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage)) die_errno("getrusage");
        sum += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ull + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    }
    return sum;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long children = argument(argc, argv, 3, 200);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    uint64_t before = cpu_us();
    for (long n = 0; n < children; n++) {
        size_t page = n * 97 % (bytes / PAGE);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            verify_page(region + page * PAGE, page, 1, "in the child");
            _exit(0);
        }
        if (wait_exit(child, "child")) die("a child found something wrong");
    }
    uint64_t spent = cpu_us() - before;
    insist_away(absent_pages(region, bytes), "the region");
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %llu microseconds a child\n", (unsigned long long)(spent / children));
}

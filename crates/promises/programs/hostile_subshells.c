/* Story: each child of a shell whose pages were away cost twenty times what it costs natively, although it did nothing
 * but end. Arguments: seed, MiB, children. Says what one costs in parent and child: page faults, voluntary switches
 * (others are the machine's) and, where they can be counted, system calls; and how much processor time. */
#include "common.h"
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct cost {
    long faults, switches, calls, us;
};

/* A counter of the system calls of this thread and of whatever descends from it, or -1. */
static int count_calls(void) {
    FILE *file = fopen("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "r");
    unsigned long long id = 0;
    if (!file) return -1;
    int read = fscanf(file, "%llu", &id);
    fclose(file);
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof attr, .config = id, .inherit = 1};
    return read == 1 ? (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) : -1;
}

static struct cost cost(int counter) {
    struct cost sum = {0};
    for (int whose = 0; whose < 2; whose++) {
        struct rusage usage;
        if (getrusage(whose ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage)) die_errno("getrusage");
        sum.us += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        sum.faults += usage.ru_minflt + usage.ru_majflt;
        sum.switches += usage.ru_nvcsw;
    }
    uint64_t calls = 0;
    if (counter >= 0 && read(counter, &calls, sizeof calls) != sizeof calls) die_errno("reading the counter");
    sum.calls = (long)calls;
    return sum;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long children = argument(argc, argv, 3, 200);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    int counter = count_calls();
    struct cost before = cost(counter);
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
    struct cost after = cost(counter);
    insist_away(absent_pages(region, bytes), "the region");
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %ld faults %ld switches %ld calls a child, %ld microseconds\n", (after.faults - before.faults) / children,
           (after.switches - before.switches) / children, counter < 0 ? -1 : (after.calls - before.calls) / children,
           (after.us - before.us) / children);
}

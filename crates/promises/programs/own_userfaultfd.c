/* Hazard: a program with a userfaultfd of its own (a collector, a checkpoint restorer). The
 * kernel lets a range belong to one userfaultfd only: the pager must not stand in the way of the
 * program's registration (EBUSY), nor take pages whose faults the program answers.
 * Arguments: seed, MiB, 1 to register late, when the pager has long seen the memory. */
#include "common.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

static int faults_fd;
static char *region;
static size_t bytes;
static _Atomic uint64_t answered, version;

static void *answer(void *unused) {
    char *page = aligned_alloc(PAGE, PAGE);
    for (;;) {
        struct pollfd p = {faults_fd, POLLIN, 0};
        poll(&p, 1, -1);
        struct uffd_msg message;
        if (read(faults_fd, &message, sizeof message) != sizeof message) continue;
        if (message.event != UFFD_EVENT_PAGEFAULT) die("own userfaultfd: event %#x", message.event);
        uintptr_t at = message.arg.pagefault.address & -PAGE;
        fill_page(page, (at - (uintptr_t)region) / PAGE, version);
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
        if (ioctl(faults_fd, UFFDIO_COPY, &copy) && errno != EEXIST) die_errno("own UFFDIO_COPY");
        answered++;
    }
    return unused;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 8) * MIB;
    int late = argument(argc, argv, 3, 0);
    faults_fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults_fd < 0) skip("userfaultfd is refused");
    struct uffdio_api api = {.api = UFFD_API};
    if (ioctl(faults_fd, UFFDIO_API, &api)) die_errno("UFFDIO_API");
    char *cold = map_region(16 * MIB);
    fill_region(cold, 16 * MIB, 1 << 20, 1);
    region = map_region(bytes);
    if (late) {
        fill_region(region, bytes, 0, 50);
        settle(cold, 16 * MIB);
        settle(region, bytes);
        sleep_ms(500);
    }
    struct uffdio_register own = {.range = {(uintptr_t)region, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults_fd, UFFDIO_REGISTER, &own)) die("the program's own UFFDIO_REGISTER: %s", strerror(errno));
    if (late) { /* what was there before is the program's still */
        verify_region(region, bytes, 0, 50, "content before the registration");
        if (madvise(region, bytes, MADV_DONTNEED)) die_errno("madvise");
    }
    start_thread(answer, NULL);
    unsigned rounds = 4;
    for (unsigned round = 0; round < rounds; round++) {
        version = round;
        verify_region(region, bytes, 0, round, "answered by the program");
        fill_region(region, bytes, 0, round + 100);
        settle(cold, 16 * MIB);
        sleep_ms(200);
        verify_region(region, bytes, 0, round + 100, "written by the program");
        if (madvise(region, bytes, MADV_DONTNEED)) die_errno("madvise");
        verify_region(cold, 16 * MIB, 1 << 20, 1, "the pager's memory");
    }
    if (answered != rounds * (bytes / PAGE))
        die("%llu faults answered by the program, %zu expected", (unsigned long long)answered, rounds * (bytes / PAGE));
    printf("OK %llu faults answered by the program\n", (unsigned long long)answered);
}

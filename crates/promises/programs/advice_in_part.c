/* Advice that the kernel follows for a part of what it is given for, and then refuses: guards, and what children have.
 * Arguments: seed. */
#include "common.h"
#include <sys/uio.h>

enum { GUARD = 102, UNGUARD = 103 };
static const size_t BYTES = 4 << 20;

static void must_fail(int result, int with, const char *what) {
    if (result >= 0) die("%s succeeded", what);
    if (errno != with) die_errno(what);
}

static char *filled(size_t first_page) {
    char *region = map_region(BYTES);
    fill_region(region, BYTES, first_page, 1);
    return region;
}

static void guards(int self) {
    char *region = filled(0);
    if (madvise(region, PAGE, GUARD)) return; /* This kernel has none. */
    if (madvise(region, PAGE, UNGUARD)) die_errno("unguard");
    /* Up to what is locked. */
    size_t before = BYTES / 4 * 3;
    if (mlock(region + before, PAGE)) skip("no locked memory");
    settle(region, before);
    must_fail(madvise(region, BYTES, GUARD), EINVAL, "guards over locked memory");
    if (madvise(region, before, UNGUARD)) die_errno("unguard");
    verify_zero_region(region, before, "behind guards");
    verify_region(region + before, BYTES - before, before / PAGE, 1, "from what is locked on");
    /* Around a hole, by both calls. */
    for (int by_parts = 0; by_parts < 2; by_parts++) {
        region = filled(2000);
        if (munmap(region + BYTES / 2, PAGE)) die_errno("munmap");
        settle(region, BYTES / 2);
        struct iovec all = {region, BYTES};
        int result = by_parts ? syscall(SYS_process_madvise, self, &all, 1, GUARD, 0) : madvise(region, BYTES, GUARD);
        must_fail(result, ENOMEM, "guards around a hole");
        if (madvise(region, BYTES / 2, UNGUARD)) die_errno("unguard");
        verify_zero_region(region, BYTES / 2, "behind guards around a hole");
    }
}

static char *wiped[3], *absent, *kept;

static void advise_for_children(int self) {
    /* Around a hole. */
    wiped[0] = filled(4000), wiped[1] = filled(6000);
    if (munmap(wiped[0] + BYTES / 2, PAGE) || munmap(wiped[1] + BYTES / 2, PAGE)) die_errno("munmap");
    must_fail(madvise(wiped[0], BYTES, MADV_WIPEONFORK), ENOMEM, "wiping around a hole");
    struct iovec parts[] = {{wiped[1], BYTES}, {wiped[1], BYTES}};
    if (syscall(SYS_process_madvise, self, parts, 2, MADV_WIPEONFORK, 0) >= 0) die("wiping around a hole succeeded");
    if (errno != ENOMEM && madvise(wiped[1], BYTES, MADV_WIPEONFORK) >= 0) die("wiping around a hole succeeded");
    /* Up to a file; what lies behind it is not wiped. */
    wiped[2] = filled(8000);
    int file = open("/proc/self/exe", O_RDONLY);
    if (mmap(wiped[2] + BYTES / 2, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) die_errno("mmap");
    must_fail(madvise(wiped[2], BYTES, MADV_WIPEONFORK), EINVAL, "wiping up to a file");
    /* Not there in children, around a hole; and there again. */
    absent = filled(10000), kept = filled(12000);
    if (munmap(absent + BYTES / 2, PAGE) || munmap(kept + BYTES / 2, PAGE)) die_errno("munmap");
    must_fail(madvise(absent, BYTES, MADV_DONTFORK), ENOMEM, "keeping from children around a hole");
    if (madvise(kept, BYTES / 2, MADV_WIPEONFORK)) die_errno("MADV_WIPEONFORK");
    must_fail(madvise(kept, BYTES, MADV_KEEPONFORK), ENOMEM, "keeping in children around a hole");
}

static void verify_in_child(void) {
    unsigned char present;
    for (int n = 0; n < 3; n++) verify_zero_region(wiped[n], BYTES / 2, "wiped in a child");
    for (int n = 0; n < 2; n++) verify_zero_region(wiped[n] + BYTES / 2 + PAGE, BYTES / 2 - PAGE, "wiped behind a hole");
    size_t behind = BYTES / 2 + PAGE;
    verify_region(wiped[2] + behind, BYTES - behind, 8000 + behind / PAGE, 1, "behind a file, in a child");
    if (!mincore(absent, PAGE, &present) || !mincore(absent + behind, PAGE, &present)) die("the child has what was kept from it");
    verify_region(kept, BYTES / 2, 12000, 1, "kept in a child");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    guards(self);
    advise_for_children(self);
    settle(kept, BYTES / 2);
    for (int round = 0; round < 3; round++) {
        sleep_ms(managed() ? 300 : 1);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (!child) {
            verify_in_child();
            _exit(0);
        }
        int e = wait_exit(child, "the child");
        if (e) die("the child has ended with %d", e);
    }
    verify_region(wiped[0], BYTES / 2, 4000, 1, "in the parent");
    verify_region(absent, BYTES / 2, 10000, 1, "in the parent");
    printf("OK advice in part\n");
}

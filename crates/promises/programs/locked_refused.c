/* Hazard: mlockall that exceeds what the program may lock. It is refused, and what was locked before stays
 * locked. Arguments: seed. */
#include "common.h"
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static size_t locked_kib(void) {
    size_t kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) die_errno("/proc/self/status");
    while (fgets(line, sizeof line, status)) sscanf(line, "VmLck: %zu", &kib);
    fclose(status);
    return kib;
}

static void drop_right_to_lock(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets)) die_errno("capget");
    for (int i = 0; i < 2; i++) sets[i].inheritable = 0;
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    sets[0].permitted &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, sets)) die_errno("capset");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    char *secret = map_apart(MIB), *rest = map_region(16 * MIB);
    fill_region(secret, MIB, 0, 1);
    fill_region(rest, 16 * MIB, 1000, 1);
    struct rlimit limit = {4 * MIB, 4 * MIB};
    if (setrlimit(RLIMIT_MEMLOCK, &limit)) die_errno("setrlimit");
    drop_right_to_lock();
    settle(secret, MIB); /* it is taken as long as it may be */
    if (mlock(secret, MIB)) die_errno("mlock");
    for (int flags = MCL_CURRENT; flags <= (MCL_CURRENT | MCL_FUTURE); flags += MCL_FUTURE) {
        errno = 0;
        if (mlockall(flags) != -1 || errno != ENOMEM) die("mlockall(%d): errno %d, not ENOMEM", flags, errno);
        if (locked_kib() != MIB / 1024) die("%zu KiB are locked, not 1024", locked_kib());
    }
    settle(rest, 16 * MIB);
    if (absent_pages(secret, MIB)) die("locked memory was taken");
    verify_region(secret, MIB, 0, 1, "locked");
    verify_region(rest, 16 * MIB, 1000, 1, "not locked");
    size_t locked = locked_kib();
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_MEMLOCK, &none)) die_errno("setrlimit");
    errno = 0;
    if (mlockall(MCL_CURRENT) != -1 || errno != EPERM) die("mlockall where nothing may be locked: errno %d, not EPERM", errno);
    printf("OK %zu KiB locked\n", locked);
}

/* Calls that would take memory away, and fail: the kernel tells a userfaultfd that it is gone all the same. Content and
 * advice for children stay as they are, while another thread maps and unmaps memory.
 * Arguments: seed, rounds. */
#include "common.h"
#include <sys/resource.h>

static const size_t BYTES = 8 << 20, ADVISED = 16 * PAGE, GUARD_BYTES = 4 * PAGE;
static int has_ended;

static void *map_and_unmap(void *unused) {
    while (!__atomic_load_n(&has_ended, __ATOMIC_RELAXED)) {
        char *memory = map_region(MIB);
        fill_region(memory, MIB, 50000, 1);
        sleep_ms(1);
        if (munmap(memory, MIB)) die_errno("munmap");
    }
    return unused;
}

static void must_fail(int result, int with, const char *what) {
    if (!result) die("%s succeeded", what);
    if (errno != with) die_errno(what);
}

/* Beyond RLIMIT_AS, or over pages that are sealed, one way or the other. */
static void fail(char *region, int how, int is_sealed) {
    struct rlimit old, low;
    if (!is_sealed) {
        if (getrlimit(RLIMIT_AS, &old)) die_errno("getrlimit");
        low = old;
        low.rlim_cur = 1UL << 32;
        if (setrlimit(RLIMIT_AS, &low)) die_errno("setrlimit");
        void *at = mmap(region, 1UL << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        must_fail(at == MAP_FAILED, ENOMEM, "mmap beyond RLIMIT_AS");
        if (setrlimit(RLIMIT_AS, &old)) die_errno("setrlimit");
    } else if (how) {
        must_fail(munmap(region, BYTES + GUARD_BYTES), EPERM, "munmap of what is sealed");
    } else {
        char *other = map_region(BYTES + GUARD_BYTES);
        other[0] = 1;
        void *at = mremap(other, BYTES + GUARD_BYTES, BYTES + GUARD_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, region);
        must_fail(at == MAP_FAILED, EPERM, "mremap over what is sealed");
        if (munmap(other, BYTES + GUARD_BYTES)) die_errno("munmap");
    }
}

/* The advised memory is wiped in a child, and what follows it is not there. */
static void check_child(const char *advised, uint64_t round) {
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (!child) {
        unsigned char present;
        verify_zero_region(advised, ADVISED, "in a child");
        if (!mincore((void *)(advised + ADVISED), PAGE, &present)) die("round %lu: the child has memory kept from it", round);
        _exit(0);
    }
    int e = wait_exit(child, "the child");
    if (e) die("the child has ended with %d", e);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t rounds = argument(argc, argv, 2, 12);
    /* Far from everything, so that nothing lies behind it. */
    char *region = mmap((void *)(1UL << 40), BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (region == MAP_FAILED) die_errno("mmap");
    int is_sealed = 0;
    char *advised = region + BYTES / 2;
    if (madvise(advised, ADVISED, MADV_WIPEONFORK)) die_errno("MADV_WIPEONFORK");
    if (madvise(advised + ADVISED, ADVISED, MADV_DONTFORK)) die_errno("MADV_DONTFORK");
    pthread_t thread = start_thread(map_and_unmap, NULL);
    for (uint64_t round = 1; round <= rounds; round++) {
        if (round == rounds / 2) is_sealed = !syscall(462 /* mseal */, region + BYTES, GUARD_BYTES, 0);
        fill_region(region, BYTES, 0, round);
        settle(region, BYTES);
        fail(region, round % 2, is_sealed);
        if (round % 4 == 0) {
            settle(region, BYTES);
            check_child(advised, round);
        }
        verify_region(region, BYTES, 0, round, "after a call that failed");
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("OK %lu rounds%s\n", rounds, is_sealed ? "" : ", none with sealed memory");
}

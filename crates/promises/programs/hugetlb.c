/* Hazard: hugetlb memory is not the pager's: it can be neither moved nor restored in pages of
 * 4 KiB. Content must be right, in the program and in its child. Needs two free huge pages.
 * Arguments: seed, milliseconds. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    uint64_t deadline = now_ms() + argument(argc, argv, 2, 1500), version = 0;
    size_t huge_bytes = 2 * MIB, bytes = 16 * MIB;
    char *huge = mmap(NULL, huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (huge == MAP_FAILED) skip("no huge page");
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    fill_region(huge, huge_bytes, 0, 0);
    while (now_ms() < deadline) {
        settle(region, bytes);
        verify_region(huge, huge_bytes, 0, version, "huge page");
        fill_region(huge, huge_bytes, 0, ++version);
        verify_region(region, bytes, 0, 1, "region");
    }
    pid_t pid = fork();
    if (pid == 0) {
        verify_region(huge, huge_bytes, 0, version, "huge page in the child");
        _exit(0);
    }
    if (wait_exit(pid, "child")) return 1;
    verify_region(huge, huge_bytes, 0, version, "huge page at the end");
    printf("OK %llu versions\n", (unsigned long long)version);
}

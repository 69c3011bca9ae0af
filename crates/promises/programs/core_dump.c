/* Hazard: a core dump is written by the kernel while the process dies: compressed pages are
 * absent from it. The dump must end (no wait for a pager that is being killed), and a page in
 * it is either right or a hole of zeros, never other bytes. The child of the program dies; the
 * program reads the core, and lives on. Arguments: seed, MiB. Needs core_pattern `core`. */
#include "common.h"
#include <elf.h>
#include <sys/resource.h>

static char *region;
static size_t bytes;

/* Reads page `at` of the process that dumped `core`. False where the dump leaves it out. */
static int read_page(int core, const Elf64_Phdr *segments, unsigned count, uintptr_t at, void *page) {
    for (unsigned i = 0; i < count; i++) {
        const Elf64_Phdr *s = &segments[i];
        if (s->p_type == PT_LOAD && at >= s->p_vaddr && at + PAGE <= s->p_vaddr + s->p_filesz)
            return pread(core, page, PAGE, s->p_offset + (at - s->p_vaddr)) == (ssize_t)PAGE;
    }
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 16) * MIB;
    char pattern[128] = "";
    int setting = open("/proc/sys/kernel/core_pattern", O_RDONLY);
    if (setting < 0 || read(setting, pattern, sizeof pattern - 1) < 0 || strcmp(pattern, "core\n")) {
        errno = 0;
        skip("core_pattern is not `core`");
    }
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &unlimited)) skip("no core dumps");
    region = map_region(bytes);
    fill_region(region, bytes, 0, 3);
    settle(region, bytes);
    pid_t pid = fork();
    if (pid == 0) {
        settle(region, bytes); /* the child's own pager */
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
        _exit(1);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) die("the child was to die: status %#x", status);
    char name[32];
    snprintf(name, sizeof name, "core.%d", pid);
    if (access(name, R_OK)) strcpy(name, "core");
    int core = open(name, O_RDONLY);
    if (core < 0) die("no core was written (status %#x)", status);
    Elf64_Ehdr head;
    if (pread(core, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG))
        die("the core is no ELF file");
    Elf64_Phdr *segments = malloc(head.e_phnum * sizeof *segments);
    if (pread(core, segments, head.e_phnum * sizeof *segments, head.e_phoff) < 0) die_errno("core");
    size_t right = 0, holes = 0, left_out = 0;
    uint64_t page[WORDS];
    for (size_t i = 0; i < bytes / PAGE; i++) {
        if (!read_page(core, segments, head.e_phnum, (uintptr_t)region + i * PAGE, page)) left_out++;
        else if (is_zero(page)) holes++;
        else {
            verify_page(page, i, 3, "core file");
            right++;
        }
    }
    unlink(name);
    if (!managed() && right != bytes / PAGE) die("native core: %zu pages right of %zu", right, bytes / PAGE);
    verify_region(region, bytes, 0, 3, "parent of the dumped child");
    printf("OK core: %zu right, %zu holes, %zu left out\n", right, holes, left_out);
}

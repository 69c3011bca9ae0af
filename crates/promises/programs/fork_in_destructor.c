/* A library whose destructor forks when the process ends: the child has all content. Arguments: seed, the library, which is
 * this source compiled with -shared -DLIBRARY. It says OK. */
#include "common.h"
#include <dlfcn.h>

#ifdef LIBRARY

enum { BYTES = 24 << 20 };
static unsigned char *region;

static int wrong(void) {
    int found = 0;
    for (size_t i = 0; i < (size_t)BYTES; i += PAGE) found += region[i] != (unsigned char)(i / PAGE | 1);
    return found;
}

void fill(void) {
    region = map_region(BYTES);
    for (size_t i = 0; i < (size_t)BYTES; i += PAGE) region[i] = (unsigned char)(i / PAGE | 1);
    settle(region, BYTES);
}

static __attribute__((destructor)) void end(void) {
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (child == 0) _exit(wrong() != 0);
    wait_success(child, "a destructor");
    if (wrong()) die("%d pages of the parent", wrong());
    dprintf(1, "OK %d MiB\n", BYTES >> 20);
}

#else

int main(int argc, char **argv) {
    if (argc < 3) die("which library?");
    void *library = dlopen(argv[2], RTLD_NOW);
    if (!library) die("%s", dlerror());
    void (*fill)(void) = (void (*)(void))dlsym(library, "fill");
    if (!fill) die("%s", dlerror());
    fill();
    return 0;
}

#endif

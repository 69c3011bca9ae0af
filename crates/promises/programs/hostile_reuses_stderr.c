/* Gives descriptor 2 to something else, as daemons do, while the pager has something to say. Nothing may come there.
 * Arguments: "file" (a data file), "pipe" (one that is read at the end), "full" (one with no room that nobody
 * reads), MiB. */
#include "common.h"
#include <sys/ioctl.h>

static int pipes[2];

static void give_away(const char *how) {
    if (!strcmp(how, "file")) {
        close(2);
        if (open("data", O_RDWR | O_CREAT | O_TRUNC, 0600) != 2) die("the data file is not descriptor 2");
        if (write(2, "mine", 4) != 4) die_errno("write");
        return;
    }
    if (pipe(pipes) || dup2(pipes[1], 2) != 2) die_errno("pipe");
    if (!strcmp(how, "full")) {
        char page[PAGE] = {0};
        fcntl(2, F_SETFL, O_NONBLOCK);
        while (write(2, page, PAGE) > 0) {}
        fcntl(2, F_SETFL, 0);
    }
}

static void check(const char *how) {
    if (!strcmp(how, "file")) {
        char text[5];
        if (lseek(2, 0, SEEK_END) != 4 || pread(2, text, 5, 0) != 4 || memcmp(text, "mine", 4))
            die("the data file holds what the program did not write");
    } else if (!strcmp(how, "pipe")) {
        int bytes = -1;
        if (ioctl(pipes[0], FIONREAD, &bytes) || bytes) die("the pipe holds what the program did not write");
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *how = argv[1];
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    give_away(how);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 0);
    settle(region, bytes);
    insist_away(absent_pages(region, bytes), "what was filled");
    verify_region(region, bytes, 0, 0, "cold");
    check(how);
    printf("OK %zu MiB\n", bytes / MIB);
}

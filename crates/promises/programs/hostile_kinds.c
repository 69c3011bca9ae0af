/* Writes pages of three kinds that grow cold, and reads them back: zeros that were written, one word
 * repeated, and text. */
#include "common.h"

#define WRITTEN 12288 /* 48 MiB */

static uint64_t kind_word(size_t page, size_t n) {
    switch (page % 4) {
    case 0: return 0;
    case 1: return UINT64_C(0x0101010101010101) * (1 + page % 200);
    default: return n % 8 ? page : page * UINT64_C(0x9E3779B97F4A7C15) + n;
    }
}

int main(void) {
    uint64_t *memory = mmap(NULL, WRITTEN * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (size_t page = 0; page < WRITTEN; page++)
        for (size_t n = 0; n < 512; n++) memory[page * 512 + n] = kind_word(page, n);
    usleep(300000);
    size_t wrong = 0;
    for (size_t page = 0; page < WRITTEN; page++)
        for (size_t n = 0; n < 512; n++) wrong += memory[page * 512 + n] != kind_word(page, n);
    if (wrong) return 2;
    printf("OK 0 wrong\n");
    return 0;
}

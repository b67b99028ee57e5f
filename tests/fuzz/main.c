/* Runs a fuzz target on the files it is given, where there is no libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    const size_t limit = (size_t)1 << 20;
    uint8_t *data = (uint8_t *)malloc(limit);
    int i;
    if (!data)
        return 1;
    for (i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t size = file ? fread(data, 1, limit, file) : 0;
        uint8_t *exact = (uint8_t *)malloc(size ? size : 1); /* so that reading past the end is seen */
        size_t k;
        if (!file || !exact) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
        fclose(file);
        for (k = 0; k < size; k++)
            exact[k] = data[k];
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(data);
    return 0;
}

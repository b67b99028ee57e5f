/* verify_checkpoints DIRECTORY...: fails and reports why unless every checkpoint in the output directories is complete.
   */
#include "tests/support/everything.h"

#include <stdio.h>

/* Checks a directory's entry if it has the name of a checkpoint: "checkpoint-" and digits. */
static int verify(const eitp_host *host, const char *directory, const char *name) {
    const char *digits = name + 11;
    char path[4096];
    eitp_error error;
    if (strncmp(name, "checkpoint-", 11) || !*digits || strspn(digits, "0123456789") != strlen(digits))
        return 1;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!eitp_checkpoint_verify(host, path, &error))
        return 1;
    printf("%s: %s\n", path, error.message);
    return 0;
}

int main(int count, char **arguments) {
    const eitp_host host = eitp_host_default();
    int is_whole = 1;
    for (int i = 1; i < count; i++) {
        eitp__buffer names;
        eitp_path_info info;
        size_t found = 0, at = 0;
        eitp__buffer_init(&names, &host);
        /* A run killed at its start has no directory. */
        if (!eitp__path_info(&host, arguments[i], &info, NULL) && info.kind == EITP_PATH_DIRECTORY &&
            eitp__list_directory(&host, arguments[i], &names, &found, NULL))
            is_whole = 0;
        for (size_t k = 0; k < found; k++) {
            is_whole &= verify(&host, arguments[i], names.data + at);
            at += strlen(names.data + at) + 1;
        }
        eitp__buffer_release(&names);
    }
    return !is_whole;
}

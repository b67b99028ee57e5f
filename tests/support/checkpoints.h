/* Checkpoints for tests. Include it after faults.h. */
#ifndef EITP_TEST_CHECKPOINTS_H
#define EITP_TEST_CHECKPOINTS_H

#include "tests/support/everything.h"

#include "tests/support/faults.h"

/* Writes a new manifest of a checkpoint after a test changed some of its files on purpose. Returns 0 if it fails. */
static FAULTS_UNUSED int renew_manifest(const char *checkpoint) {
    const eitp_host host = eitp_host_default();
    eitp__manifest manifest, nothing_known;
    int exists = 0, is_renewed;
    eitp__manifest_init(&manifest, &host, -1, 1);
    is_renewed = !eitp__manifest_read(&manifest, checkpoint, &exists, NULL) && exists;
    eitp__manifest_init(&nothing_known, &host, manifest.step, manifest.is_counted);
    is_renewed = is_renewed && !eitp__manifest_write(&nothing_known, checkpoint, NULL);
    eitp__manifest_release(&manifest);
    return is_renewed;
}

static FAULTS_UNUSED eitp_status fill_one_file(void *user, const char *directory, eitp_error *error) {
    const eitp__manifest *manifest = (const eitp__manifest *)user;
    char text[64];
    snprintf(text, sizeof text, "the checkpoint of step %lld", (long long)manifest->step);
    return eitp__write_file(manifest->names.host, scratch_path(directory, "content"), text, strlen(text), error);
}

/* Creates a checkpoint with one file, "content". Returns 0 if it fails. */
static FAULTS_UNUSED int make_checkpoint(const eitp_host *host, const char *directory, int64_t step, const char *suffix,
                                         int is_counted) {
    eitp__manifest manifest;
    eitp__manifest_init(&manifest, host, step, is_counted);
    return !eitp__checkpoint_create(host, directory, suffix, &manifest, fill_one_file, &manifest, NULL);
}

#endif

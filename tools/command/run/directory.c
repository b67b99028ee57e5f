#include "run/directory.h"

#include "files.h"
#include "output.h"

/* Appends the options that avoid the library's error. */
static void name_options(eitp_error *error, const char *options) {
    size_t size = strlen(error->message);
    snprintf(error->message + size, sizeof error->message - size, " (%s)", options);
}

/* Removes the offload file of a run that ended without doing so. */
static void remove_offload(const training_run *r) {
    char *path = files_join(r->directory, "offload.tmp");
    if (files_info(path).kind == EITP_PATH_FILE)
        files_remove(path);
    free(path);
}

eitp_status directory_open(training_run *r, eitp_run_resume resume, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_run_config config = eitp_run_config_default();
    eitp_status status = EITP_OK;
    if (options_integer(&r->options, OPTION_OVERWRITE_OUTPUT_DIR))
        status = replace_run(r->directory, &r->replaced, error);
    if (status)
        return status;
    if (r->replaced.to)
        output_info("the earlier run in '%s' is now in '%s'; delete it when it is no longer needed", r->directory,
                    r->replaced.to);
    config.directory = r->directory;
    config.resume = resume;
    config.checkpoint = r->checkpoint;
    config.report_to = NULL; /* the rest of the configuration is set once known */
    status = eitp_run_open(&host, &config, &r->run, error);
    if (status == EITP_ERROR_ARGUMENT)
        name_options(error,
                     error->system_code ? "--output-dir" : "--output-dir, --resume auto, --overwrite-output-dir");
    if (!status)
        remove_offload(r);
    if (!status && resume == EITP_RESUME_NEWEST && eitp_run_checkpoint(r->run))
        r->checkpoint = command_copy(eitp_run_checkpoint(r->run));
    return status;
}

int directory_is_same(const char *a, const char *b) {
    char *first = realpath(a, NULL), *second = realpath(b, NULL);
    int is_same = first && second && !strcmp(first, second);
    free(first);
    free(second);
    return is_same;
}

int directory_is_output(const char *path) {
    return files_info(path).kind == EITP_PATH_DIRECTORY && !files_is_file(path, "config.json") &&
           !files_is_file(path, "trainer_state.json");
}

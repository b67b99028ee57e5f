/* The packed files of a resumed run, regardless of changes to the source files. */
#include "recipe/training.h"

/* Returns the role of a part in the run: the data that a trained model is evaluated on may be its validation data. */
static eitp_split eitp__run_split(const eitp_training *training, eitp_split split) {
    return split == EITP_TRAINING ? training->packed_as : split;
}

/* True if the checkpoint has the hash of the training part. */
static int eitp__has_training_part(const eitp_training *training, const eitp_sample_file *file) {
    const double fraction = training->recipe.data.validation.count ? 0 : training->recipe.data.validation_fraction;
    eitp_labelled_part *kept = NULL, *held = NULL;
    const int is_it = !eitp_labelled_split(file, fraction, training->recipe.trainer.seed, &kept, &held, NULL) &&
                      eitp_labelled_part_source(kept).hash == training->resumed.data.hash;
    eitp_labelled_part_destroy(kept);
    eitp_labelled_part_destroy(held);
    return is_it;
}

/* True if a file can have the data of a part. The checkpoint identifies the training data by their hash, but not the
   validation data: any other file of the same kind and tokenizer counts. */
static int eitp__has_its_data(const eitp_training *training, eitp_split split, int is_labelled, const char *path) {
    eitp_sample_file_info info;
    eitp_sample_file *file;
    int is_it;
    if (eitp_sample_file_open(&training->host, path, 0, &file, NULL))
        return 0;
    info = eitp_sample_file_get_info(file);
    if ((info.sample_count > 0) != is_labelled ||
        info.second_fingerprint != eitp_tokenizer_fingerprint(training->encoder_tokenizer))
        is_it = 0;
    else if (eitp__run_split(training, split) == EITP_VALIDATION)
        is_it = !training->tokenizer || eitp_tokenizer_fingerprint(training->tokenizer) == info.tokenizer_fingerprint;
    else
        is_it =
            is_labelled ? eitp__has_training_part(training, file) : info.content_hash == training->resumed.data.hash;
    is_it = is_it && !eitp_sample_file_verify(file, NULL);
    eitp_sample_file_close(file);
    return is_it;
}

/* Returns the path of a file with the data of the run in the directory of packed data as a new string, or NULL. Skips
   `except`, which may be NULL. */
static char *eitp__search_packed(const eitp_training *training, eitp_split split, int is_labelled, const char *except) {
    const eitp_host *host = &training->host;
    char *directory = eitp__join_path(host, training->recipe.run.directory, "data"), *found = NULL;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp__buffer_init(&names, host);
    if (!directory || eitp__list_directory(host, directory, &names, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count && !found; i++, at += strlen(names.data + at) + 1) {
        found = eitp__join_path(host, directory, names.data + at);
        if (found && ((except && !strcmp(except, found)) || !eitp__has_its_data(training, split, is_labelled, found))) {
            eitp__release_text(host, found);
            found = NULL;
        }
    }
    eitp__buffer_release(&names);
    eitp__release_text(host, directory);
    return found;
}

EITP__PRIVATE int eitp__has_packed(const eitp_training *training, eitp_split split, int is_labelled) {
    char *found = training->resumed.data.hash ? eitp__search_packed(training, split, is_labelled, NULL) : NULL;
    const int has_one = found != NULL;
    eitp__release_text(&training->host, found);
    return has_one;
}

/* Returns the file of a part, or NULL. The validation file must differ from the training file, which is not open if a
   trained model is evaluated on validation data. */
static char *eitp__find_packed(eitp_training *training, eitp_split split, int is_labelled) {
    char *found, *trained;
    if (split == EITP_VALIDATION || training->packed_as == EITP_TRAINING)
        return eitp__search_packed(training, split, is_labelled,
                                   split == EITP_VALIDATION ? training->parts[EITP_TRAINING].path : NULL);
    training->packed_as = EITP_TRAINING;
    trained = eitp__search_packed(training, split, is_labelled, NULL);
    training->packed_as = EITP_VALIDATION;
    found = eitp__search_packed(training, split, is_labelled, trained);
    eitp__release_text(&training->host, trained);
    return found;
}

/* True if the file that the source files would be packed into now has the data of the run. */
static int eitp__is_expected(const eitp_training *training, eitp_split split, int is_labelled, const char *path) {
    const char *trained = training->parts[EITP_TRAINING].path;
    return !(split == EITP_VALIDATION && trained && !strcmp(trained, path)) &&
           eitp__has_its_data(training, split, is_labelled, path);
}

/* True if a file or directory of the part is missing. */
static int eitp__lacks_text(const eitp_training *training, eitp_split split) {
    const eitp_text_list *paths = training->parts[split].paths;
    eitp_path_kind kind;
    int found = 0;
    for (size_t i = 0; i < paths->count; i++)
        found |=
            !eitp__recipe_path_kind(&training->host, paths->texts[i], NULL, &kind, NULL) && kind == EITP_PATH_MISSING;
    return found;
}

EITP__PRIVATE int eitp__part_has_input(const eitp_training *training, eitp_split split) {
    const eitp_text_list *paths = training->parts[split].paths;
    size_t i = 0;
    while (i < paths->count && strcmp(paths->texts[i], "-"))
        i++;
    return i < paths->count;
}

static void eitp__log_reuse(const eitp_training *training, const eitp__data_part *part, eitp_status status,
                            const eitp_error *why) {
    if (status)
        eitp__log_line(&training->host, EITP_LOG_WARNING, "%s; packing the data again", why->message);
    else
        eitp__log_line(&training->host, EITP_LOG_INFO, "reusing packed data: %s", part->path);
}

/* Fails for files packed by earlier versions, in which labels include the white space around them, or conversations
   lack their weights. */
static eitp_status eitp__check_row_rules(const eitp_sample_file *file, const char *path, eitp_error *error) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    if (!info.problem || info.row_rules)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "%s: packed by an earlier version, which read labels and weights "
                      "differently",
                      path);
}

EITP__PRIVATE int eitp__part_is_packed(const eitp_training *training, const eitp__data_part *part) {
    eitp_sample_file *file;
    eitp_error why;
    eitp_status status;
    if ((training->trained && training->recipe.data.packed) || !eitp__recipe_is_file(&training->host, part->path))
        return 0;
    status = eitp_sample_file_open(&training->host, part->path, 0, &file, &why);
    if (!status)
        status = eitp__check_row_rules(file, part->path, &why);
    if (!status)
        status = eitp_sample_file_verify(file, &why);
    eitp_sample_file_close(file);
    eitp__log_reuse(training, part, status, &why);
    return !status;
}

/* Logs the packed data that a resumed run continues with, or that a trained model is evaluated on. */
static void eitp__log_found(const eitp_training *training, eitp_split split, const char *path) {
    const char *checkpoint = eitp__training_checkpoint(training);
    const int lacks_text = eitp__lacks_text(training, split) && !eitp__part_has_input(training, split);
    if (!training->trained)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "the text of %s %s since '%s' was written; the run continues with the packed data "
                       "'%s'; to train on other text, start a new run from the weights of '%s'",
                       split == EITP_TRAINING ? "data" : "val_data",
                       eitp__lacks_text(training, split) ? "has gone missing" : "has changed or moved", checkpoint,
                       path, checkpoint);
    else if (lacks_text)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "the text of the run has gone missing since '%s' was written; evaluating "
                       "the packed data: '%s'",
                       checkpoint, path);
    else
        eitp__log_line(&training->host, EITP_LOG_INFO, "evaluating the packed data of the run: '%s'", path);
}

EITP__PRIVATE eitp_status eitp__part_find_packed(eitp_training *training, eitp_split split, int is_labelled,
                                                 const char *expected, eitp_error *error) {
    eitp__data_part *part = &training->parts[split];
    if (!training->is_resumed || !training->resumed.data.hash || training->recipe.data.rereads[split])
        return EITP_OK;
    if (!training->trained && eitp__is_expected(training, split, is_labelled, expected)) {
        part->path = eitp__copy_text(&training->host, expected);
        if (!part->path)
            return eitp__fail_memory(error, strlen(expected), "the path of packed data");
        eitp__log_reuse(training, part, EITP_OK, NULL);
    } else {
        part->path = eitp__find_packed(training, split, is_labelled);
        if (part->path)
            eitp__log_found(training, split, part->path);
    }
    part->is_verified = part->path != NULL;
    if (!part->path && training->trained && eitp__part_has_input(training, split))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the data of the run came from standard input, which cannot be read again; name it as data");
    return EITP_OK;
}

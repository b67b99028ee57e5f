#include "use/split.h"

#include "files.h"
#include "output.h"
#include "run/record.h"

/* In the order of the option's choices. */
typedef enum data_split { SPLIT_ALL, SPLIT_TRAINING, SPLIT_VALIDATION } data_split;

static const char *const split_names[] = {"all", "training", "validation"};

static data_split find_split(const option_set *o) {
    return (data_split)options_choice(o, OPTION_SPLIT);
}

/* ---- The data of the run ---- */

static void copy_paths(const option_set *from, option_id from_id, option_set *to) {
    const option_value *paths = &from->values[from_id];
    eitp_error ignored;
    for (size_t i = 0; i < paths->count; i++)
        options_set(to, OPTION_DATA, paths->texts[i], SOURCE_RUN, "", &ignored);
}

/* How data are read: the columns come first. */
enum { COLUMNS = 3, READING = 7 };
static const option_id reading[READING] = {OPTION_TEXT_COLUMN, OPTION_PAIR_COLUMN, OPTION_LABEL_COLUMN,
                                           OPTION_DATA_FORMAT, OPTION_ENCODING,    OPTION_ON_BAD_ROW,
                                           OPTION_DEDUP};

/* Takes the first `count` of these from the run, where the command line does not say. */
static void copy_reading(const option_set *run, int count, option_set *o) {
    for (int i = 0; i < count; i++) {
        if (options_has(run, reading[i]) && !options_is_explicit(o, reading[i]))
            options_set_text(o, reading[i], options_text(run, reading[i]), SOURCE_RUN);
    }
}

/* Reads the options of a run from its run.json; `run` is to be released in any case. */
static eitp_status read_record(const char *checkpoint, option_set *run, eitp_error *error) {
    int found;
    eitp_status status;
    options_create(run, "train", OPTIONS_TRAIN);
    status = record_read(run, checkpoint, &found, error);
    return status || found
               ? status
               : command_fail(error, EITP_ERROR_ARGUMENT,
                              "--data is required: no run.json next to '%s' names the data of its run", checkpoint);
}

eitp_status split_find_data(option_set *o, const char *checkpoint, option_id *of_run, eitp_error *error) {
    option_set run;
    eitp_status status;
    if (!options_has(o, OPTION_SPLIT) || options_has(o, OPTION_DATA))
        return EITP_OK;
    status = read_record(checkpoint, &run, error);
    if (!status && find_split(o) == SPLIT_VALIDATION && options_has(&run, OPTION_VAL_DATA)) {
        *of_run = OPTION_VAL_DATA;
        options_set_text(o, OPTION_SPLIT, "all", o->values[OPTION_SPLIT].source);
    } else if (!status) {
        *of_run = OPTION_DATA;
    }
    if (!status) {
        copy_paths(&run, *of_run, o);
        copy_reading(&run, READING, o);
    }
    options_release(&run);
    return status;
}

void split_copy_columns(option_set *o, const char *checkpoint) {
    option_set run;
    eitp_error ignored;
    if (!options_has(o, OPTION_DATA))
        return;
    if (!read_record(checkpoint, &run, &ignored))
        copy_reading(&run, COLUMNS, o);
    options_release(&run);
}

/* ---- What it was packed into ---- */

/* The directory of packed texts in that of the run. */
static char *packed_directory(const char *checkpoint) {
    char *parent = files_parent(checkpoint), *directory = files_join(parent, "data");
    free(parent);
    return directory;
}

static char *find_packed(const option_set *run, option_id of_run, const char *checkpoint,
                         const eitp_tokenizer *tokenizer, packed_test has_data) {
    const eitp_host host = command_host();
    packed_owner owner = {run, 0, tokenizer, NULL};
    eitp_checkpoint_info info;
    eitp_error ignored;
    char *directory, *training, *path;
    if (eitp_checkpoint_read_info(&host, checkpoint, &info, &ignored) || !info.data.hash)
        return NULL;
    owner.hash = info.data.hash;
    directory = packed_directory(checkpoint);
    path = training = packed_find(&owner, OPTION_DATA, directory, has_data);
    if (of_run == OPTION_VAL_DATA) {
        owner.training = training;
        path = packed_find(&owner, of_run, directory, has_data);
        free(training);
    }
    free(directory);
    return path;
}

eitp_status split_use_packed(const option_set *o, option_id of_run, const char *checkpoint,
                             const eitp_tokenizer *tokenizer, packed_test has_data, data_file *data,
                             eitp_error *error) {
    const int is_input = data_has_input(o, OPTION_DATA);
    option_set run;
    eitp_status status;
    if (of_run == OPTION_COUNT)
        return EITP_OK;
    status = read_record(checkpoint, &run, error);
    if (!status)
        data->path = find_packed(&run, of_run, checkpoint, tokenizer, has_data);
    options_release(&run);
    data->verified = data->path != NULL;
    if (status)
        return status;
    if (!data->path && is_input)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the data of the run came from standard input, which cannot be read again; name it with "
                            "--data");
    if (data->path && packed_lacks_text(o, OPTION_DATA) && !is_input)
        output_warning("the text of the run has gone missing since '%s' was written; what it was packed into is "
                       "evaluated: '%s'",
                       checkpoint, data->path);
    else if (data->path)
        output_info("evaluating what the text of the run was packed into: '%s'", data->path);
    return EITP_OK;
}

/* ---- The part of it ---- */

static int is_checkpoint(const char *directory) {
    return files_is_file(directory, "trainer_state.json");
}

static eitp_status fail_split(data_split split, const char *why, const char *checkpoint, eitp_error *error) {
    return command_fail(error, EITP_ERROR_ARGUMENT, "--split %s: %s ('%s'); evaluate with --split all",
                        split_names[split], why, checkpoint);
}

static eitp_status select_part(data_split split, const char *checkpoint, const eitp_token_range *training,
                               eitp_token_range *range, eitp_error *error) {
    const uint64_t end = training->first + training->count;
    if (split == SPLIT_TRAINING) {
        *range = *training;
        return EITP_OK;
    }
    if (end == range->count)
        return fail_split(split, "the run held out no part of this data", checkpoint, error);
    range->first = end;
    range->count -= end;
    return EITP_OK;
}

static void warn_trained(const char *checkpoint, const eitp_token_range *training, const eitp_token_range *all) {
    if (training->first + training->count < all->count)
        output_warning("'%s' was trained on %.0f %% of this data; --split validation evaluates only what it held out",
                       checkpoint, 100 * (double)training->count / (double)all->count);
    else
        output_warning("'%s' was trained on this data; evaluate on other text to measure what it learned", checkpoint);
}

/* Of data that has grown, only the tokens that the run had. */
static eitp_status keep_beginning(const eitp_token_file *file, uint64_t hash, eitp_token_source *source,
                                  eitp_token_range *range, eitp_error *error) {
    uint64_t count = 0;
    eitp_status status = EITP_OK;
    if (hash && source->hash && source->hash != hash)
        status = eitp_token_file_find_prefix(file, hash, &count, error);
    if (status || !count)
        return status;
    range->count = count;
    source->hash = hash;
    return EITP_OK;
}

eitp_status split_find_range(const option_set *o, const char *checkpoint, const data_file *data,
                             eitp_token_range *range, eitp_error *error) {
    const eitp_host host = command_host();
    const data_split split = find_split(o);
    eitp_token_source source;
    eitp_checkpoint_info info;
    eitp_token_range training;
    eitp_status status;
    range->first = 0;
    range->count = eitp_token_file_get_info(data->file).token_count;
    if (!is_checkpoint(checkpoint))
        return split ? fail_split(split, "a model is not a checkpoint, which knows its data", checkpoint, error)
                     : EITP_OK;
    status = eitp_checkpoint_read_info(&host, checkpoint, &info, error);
    if (status)
        return status;
    source = eitp_token_file_source(data->file, *range);
    if (split)
        status = keep_beginning(data->file, info.data.hash, &source, range, error);
    if (status)
        return status;
    training.first = info.data.first;
    training.count = info.data.count;
    if (source.hash != info.data.hash || training.first + training.count > range->count)
        return split ? fail_split(split, "the run was trained on other data", checkpoint, error) : EITP_OK;
    if (split)
        return select_part(split, checkpoint, &training, range, error);
    if (!options_has(o, OPTION_SPLIT) && source.hash)
        warn_trained(checkpoint, &training, range);
    return EITP_OK;
}

/* ---- The part of a labelled file ---- */

/* Divides the samples as the run did. */
static eitp_status divide(const char *checkpoint, const data_file *data, eitp_labelled_part **training,
                          eitp_labelled_part **validation, eitp_error *error) {
    option_set run;
    eitp_status status = read_record(checkpoint, &run, error);
    if (!status)
        status = eitp_labelled_split(data->labelled, packed_held_fraction(&run),
                                     (uint64_t)options_integer(&run, OPTION_SEED), training, validation, error);
    options_release(&run);
    return status;
}

/* Chooses among all samples and the parts of the run, whose training part has the hash `trained`. */
static eitp_status choose_part(const option_set *o, const char *checkpoint, uint64_t trained,
                               eitp_labelled_part *const parts[3], data_split *split, eitp_error *error) {
    const uint64_t all = eitp_labelled_part_source(parts[SPLIT_ALL]).count;
    const eitp_labelled_source training = eitp_labelled_part_source(parts[SPLIT_TRAINING]);
    const int is_same = training.hash == trained;
    *split = find_split(o);
    if (*split && !is_same)
        return fail_split(*split, "the run was trained on other data", checkpoint, error);
    if (*split == SPLIT_VALIDATION && training.count == all)
        return fail_split(*split, "the run held out no part of this data", checkpoint, error);
    if (is_same && !options_has(o, OPTION_SPLIT))
        output_warning("'%s' was trained on %.0f %% of this data; --split validation evaluates only what it held out",
                       checkpoint, 100 * (double)training.count / (double)all);
    return EITP_OK;
}

eitp_status split_find_part(const option_set *o, const char *checkpoint, const data_file *data,
                            eitp_labelled_part **part, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_labelled_part *parts[3] = {NULL, NULL, NULL};
    eitp_checkpoint_info info;
    data_split split = SPLIT_ALL;
    eitp_status status = eitp_labelled_part_create(data->labelled, NULL, 0, &parts[SPLIT_ALL], error);
    if (!status && find_split(o) && !is_checkpoint(checkpoint))
        status = fail_split(find_split(o), "a model is not a checkpoint, which knows its data", checkpoint, error);
    if (!status && is_checkpoint(checkpoint)) {
        eitp_error ignored;
        status = eitp_checkpoint_read_info(&host, checkpoint, &info, error);
        if (!status && !divide(checkpoint, data, &parts[SPLIT_TRAINING], &parts[SPLIT_VALIDATION],
                               find_split(o) ? error : &ignored))
            status = choose_part(o, checkpoint, info.data.hash, parts, &split, error);
        else if (!status && find_split(o))
            status = error->status;
    }
    *part = status ? NULL : parts[split];
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++)
        eitp_labelled_part_destroy(parts[i] == *part ? NULL : parts[i]);
    return status;
}

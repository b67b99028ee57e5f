/* Changes settings of a checkpoint by replacing it with a changed copy. */
#include "base/files.h"
#include "base/json.h"
#include "base/setting_table.h"
#include "io/checkpoint.h"
#include "io/model_directory.h"
#include "io/weight_files.h"
#include "model/transformer_config.h"
#include "train/trainer_state.h"

#define EITP__CONFIG_FILE "config.json"
#define EITP__COPIED_PIECE ((size_t)1 << 20)

/* A checkpoint and its settings, before and after. */
typedef struct eitp__checkpoint_edit {
    const eitp_host *host;
    const char *checkpoint;
    char *directory; /* directory that contains the checkpoint */
    eitp__checkpoint_head head;
    eitp__state state;
    eitp_transformer_config config;
    int has_config;     /* there is a config.json */
    int changes_config; /* config.json changes */
} eitp__checkpoint_edit;

/* ---- Values ---- */

/* A setting outside the trainer's table: the loss scale, or a setting of config.json. */
typedef struct eitp__edit_number {
    const char *name;
    double low, high;
    int excludes_bounds;
    int members; /* bits: 1 embedding, 2 attention, 4 residual dropout; 0: the loss scale */
} eitp__edit_number;

static const eitp__edit_number eitp__edit_numbers[] = {
    {"loss_scale", 0, 16777216, 1, 0},     {"dropout", 0, 0.999, 0, 7},          {"embedding_dropout", 0, 0.999, 0, 1},
    {"attention_dropout", 0, 0.999, 0, 2}, {"residual_dropout", 0, 0.999, 0, 4},
};

static void eitp__describe_number(const eitp__checkpoint_edit *edit, const eitp__edit_number *row, char *text,
                                  size_t size) {
    const double values[] = {edit->config.embedding_dropout, edit->config.attention_dropout,
                             edit->config.residual_dropout};
    size_t at = 0;
    if (!row->members)
        snprintf(text, size, "%.10g", edit->state.loss_scale);
    for (int i = 0; i < 3 && row->members && at < size; i++) {
        if (row->members >> i & 1)
            at += (size_t)snprintf(text + at, size - at, "%s%.10g", at ? ", " : "", values[i]);
        /* One number if all are equal. */
        if (row->members == 7 && !memcmp(&values[0], &values[1], sizeof *values) &&
            !memcmp(&values[0], &values[2], sizeof *values))
            return;
    }
}

static eitp_status eitp__set_number(eitp__checkpoint_edit *edit, const eitp__edit_number *row,
                                    eitp_setting_change *change, eitp_error *error) {
    double *const values[] = {&edit->config.embedding_dropout, &edit->config.attention_dropout,
                              &edit->config.residual_dropout};
    double number;
    char bounds[64];
    snprintf(bounds, sizeof bounds, "%s %g and at most %g", row->excludes_bounds ? "above" : "at least", row->low,
             row->high);
    if (row->members && !edit->has_config)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has no " EITP__CONFIG_FILE ", which %s is in",
                          edit->checkpoint, row->name);
    if (!eitp__setting_read_number(change->value, &number) ||
        !(row->excludes_bounds ? number > row->low : number >= row->low) || !(number <= row->high))
        return eitp__setting_fail_value(row->name, bounds, change->value, error);
    eitp__describe_number(edit, row, change->was, sizeof change->was);
    if (!row->members) {
        edit->state.loss_scale = number;
        edit->state.scale_steps = 0;
    }
    for (int i = 0; i < 3; i++) {
        if (row->members >> i & 1)
            *values[i] = number;
    }
    edit->changes_config |= row->members != 0;
    eitp__describe_number(edit, row, change->is, sizeof change->is);
    return EITP_OK;
}

/* Suggests the most similar name, or lists all names except minor settings. */
static eitp_status eitp__fail_setting_name(const char *name, eitp_error *error) {
    eitp_suggestion near = EITP__ZERO;
    char list[500];
    size_t count, at = 0;
    const eitp_setting *settings = eitp__trainer_setting_table(&count);
    for (size_t i = 0; i < count; i++)
        eitp_suggest_name(name, settings[i].name, strlen(settings[i].name), &near);
    if (near.name)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown setting '%.40s'; did you mean '%.*s'?", name,
                          (int)near.size, near.name);
    for (size_t i = 0; i < count && at < sizeof list; i++) {
        if (!(settings[i].flags & EITP_SETTING_MINOR))
            at += (size_t)snprintf(list + at, sizeof list - at, "%s, ", settings[i].name);
    }
    for (size_t i = 0; i < EITP__COUNT(eitp__edit_numbers) && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", eitp__edit_numbers[i].name);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown setting '%.40s' (choose from %s)", name, list);
}

/* If the shape of the steps changed, the run no longer counts as shrunk. */
static void eitp__edit_shape(eitp__checkpoint_edit *edit, const eitp_trainer_config *before) {
    const eitp_step_shape was = eitp__step_shape_of(before), is = eitp__step_shape_of(&edit->state.info.config);
    if (!eitp__step_shapes_equal(&was, &is))
        edit->state.info.initial_shape = is;
}

static eitp_status eitp__edit_setting(eitp__checkpoint_edit *edit, eitp_setting_change *change, eitp_error *error) {
    eitp_trainer_config *config = &edit->state.info.config, before = *config;
    size_t count;
    const eitp_setting *settings = eitp__trainer_setting_table(&count);
    eitp_status status;
    if (!change->name || !change->value)
        return eitp__fail_null(error, "eitp_checkpoint_set", "name and value of a change");
    for (size_t i = 0; i < EITP__COUNT(eitp__edit_numbers); i++) {
        if (eitp__setting_has_name(eitp__edit_numbers[i].name, change->name))
            return eitp__set_number(edit, &eitp__edit_numbers[i], change, error);
    }
    for (size_t i = 0; i < count; i++) {
        if (!eitp__setting_has_name(settings[i].name, change->name))
            continue;
        eitp_setting_format(&settings[i], config, change->was, sizeof change->was);
        status = eitp_setting_set_text(&settings[i], change->value, config, error);
        eitp_setting_format(&settings[i], config, change->is, sizeof change->is);
        if (!status && config->micro_batches_per_pass < 1)
            status = eitp__setting_fail_value("micro_batches_per_pass", "at least 1", change->value, error);
        eitp__edit_shape(edit, &before);
        return status;
    }
    return eitp__fail_setting_name(change->name, error);
}

/* ---- Copying ---- */

static eitp_status eitp__copy_file(const eitp_host *host, const char *from, const char *to, void *piece,
                                   eitp_error *error) {
    eitp__file source, copy = EITP__ZERO;
    size_t done = EITP__COPIED_PIECE;
    uint64_t at = 0;
    eitp_status status = eitp__file_open(&source, host, from, EITP_FILE_READ, error);
    if (!status)
        status = eitp__file_open(&copy, host, to, EITP_FILE_REPLACE, error);
    while (!status && done == EITP__COPIED_PIECE) {
        status = eitp__file_read_some(&source, at, piece, EITP__COPIED_PIECE, &done, error);
        if (!status && done)
            status = eitp__file_write(&copy, at, piece, done, error);
        at += done;
    }
    if (!status)
        status = eitp__file_sync(&copy, error);
    if (status)
        eitp__file_close(&copy, NULL);
    else
        status = eitp__file_close(&copy, error);
    eitp__file_close(&source, NULL);
    return status;
}

static eitp_status eitp__copy_entry(const eitp_host *host, const char *from, const char *to, void *piece,
                                    eitp_error *error);

static eitp_status eitp__copy_files(const eitp_host *host, const char *from, const char *to, void *piece,
                                    eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, from, &names, &count, error);
    if (!status)
        status = eitp__make_directories(host, to, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        char *source = eitp__join_path(host, from, name), *copy = eitp__join_path(host, to, name);
        at += strlen(name) + 1;
        status = source && copy ? eitp__copy_entry(host, source, copy, piece, error)
                                : eitp__fail_memory(error, strlen(from), "a path");
        eitp__release_text(host, source);
        eitp__release_text(host, copy);
    }
    eitp__buffer_release(&names);
    return status;
}

static eitp_status eitp__copy_entry(const eitp_host *host, const char *from, const char *to, void *piece,
                                    eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(host, from, &info, error);
    if (status)
        return status;
    if (info.kind == EITP_PATH_DIRECTORY)
        return eitp__copy_files(host, from, to, piece, error);
    return eitp__copy_file(host, from, to, piece, error);
}

/* Replaces the config.json of a directory, at `path`. */
static eitp_status eitp__replace_config(const eitp__checkpoint_edit *edit, const char *directory, const char *path,
                                        eitp_error *error) {
    eitp__labels *labels = NULL;
    char *keys = NULL;
    eitp_dtype dtype;
    eitp_status status = eitp_model_dtype_read(edit->host, directory, &dtype, error);
    if (!status)
        status = eitp__config_other_keys(edit->host, edit->config.architecture, path, &keys, error);
    if (!status && eitp_head_has_labels(edit->config.head))
        status = eitp__labels_read_file(edit->host, path, &labels, error);
    if (!status)
        status = eitp__transformer_config_write(edit->host, path, &edit->config, labels, keys, -1, dtype, error);
    eitp__release_text(edit->host, keys);
    eitp__labels_release(labels);
    return status;
}

/* Removes the old manifest from the copy, and writes the changed files. */
static eitp_status eitp__write_changed(const eitp__checkpoint_edit *edit, const char *directory, eitp_error *error) {
    const eitp_host *host = edit->host;
    char *manifest = eitp__join_path(host, directory, EITP__MANIFEST_FILE);
    char *state = eitp__join_path(host, directory, EITP__STATE_FILE);
    char *config = eitp__join_path(host, directory, EITP__CONFIG_FILE);
    eitp_status status = manifest && state && config ? eitp__remove_tree(host, manifest, error)
                                                     : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__state_write(host, edit->config.architecture, state, &edit->state, error);
    if (!status && edit->changes_config)
        status = eitp__replace_config(edit, directory, config, error);
    eitp__release_text(host, manifest);
    eitp__release_text(host, state);
    eitp__release_text(host, config);
    return status;
}

static eitp_status eitp__fill_changed(void *user, const char *directory, eitp_error *error) {
    const eitp__checkpoint_edit *edit = (const eitp__checkpoint_edit *)user;
    void *piece = eitp__allocate_uninitialized(edit->host, EITP__COPIED_PIECE);
    eitp_status status = piece ? eitp__copy_files(edit->host, edit->checkpoint, directory, piece, error)
                               : eitp__fail_memory(error, EITP__COPIED_PIECE, "copying a checkpoint");
    eitp__release(edit->host, piece, EITP__COPIED_PIECE);
    return status ? status : eitp__write_changed(edit, directory, error);
}

/* ---- The checkpoint ---- */

static eitp_status eitp__edit_read(eitp__checkpoint_edit *edit, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(edit->host, edit->checkpoint, EITP__CONFIG_FILE);
    eitp_status status =
        path ? eitp__checkpoint_verify(edit->host, edit->checkpoint, EITP__VERIFY_ALL, &edit->head, error)
             : eitp__fail_memory(error, strlen(edit->checkpoint), "a path");
    if (!status)
        status = eitp__state_read(edit->host, edit->checkpoint, &edit->state, error);
    if (!status)
        status = eitp__path_info(edit->host, path, &info, error);
    edit->has_config = !status && info.kind == EITP_PATH_FILE;
    if (edit->has_config)
        status = eitp_transformer_config_read(edit->host, path, &edit->config, error);
    eitp__release_text(edit->host, path);
    return status;
}

/* Checks that the checkpoint can be replaced under its name, "checkpoint-<step>". */
static eitp_status eitp__edit_check_name(const eitp__checkpoint_edit *edit, eitp_error *error) {
    char name[64];
    const size_t length = strlen(edit->checkpoint);
    const int size = snprintf(name, sizeof name, "checkpoint-%lld", (long long)edit->head.step);
    const char *end = edit->checkpoint + length;
    while (end > edit->checkpoint && end[-1] == '/')
        end--;
    if (end - edit->checkpoint >= size && !memcmp(end - size, name, (size_t)size) &&
        (end - size == edit->checkpoint || end[-size - 1] == '/'))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has the checkpoint of step %lld; call it %s to change it",
                      edit->checkpoint, (long long)edit->head.step, name);
}

static eitp_status eitp__edit_replace(eitp__checkpoint_edit *edit, eitp_setting_change *changes, size_t count,
                                      eitp_error *error) {
    eitp__manifest manifest;
    eitp_status status = eitp__edit_read(edit, error);
    if (!status)
        status = eitp__edit_check_name(edit, error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__edit_setting(edit, &changes[i], error);
    if (!status)
        status = eitp__trainer_settings_check(&edit->state.info.config, error);
    if (status)
        return status;
    eitp__manifest_init(&manifest, edit->host, edit->head.step, edit->head.is_counted);
    status = eitp__checkpoint_create(edit->host, edit->directory, "", &manifest, eitp__fill_changed, edit, error);
    eitp__manifest_release(&manifest);
    return status;
}

eitp_status eitp_checkpoint_set(const eitp_host *host, const char *checkpoint, eitp_setting_change *changes,
                                size_t count, eitp_error *error) {
    eitp__checkpoint_edit edit = EITP__ZERO;
    void *lock = NULL;
    int code;
    eitp_status status;
    if (!host || !checkpoint || (!changes && count))
        return eitp__fail_null(error, "eitp_checkpoint_set", "host, checkpoint and changes");
    edit.host = host;
    edit.checkpoint = checkpoint;
    edit.directory = eitp__parent_directory(host, checkpoint);
    if (!edit.directory)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    code = host->files.lock ? host->files.lock(host->files.user, edit.directory, &lock) : 0;
    if (code == EWOULDBLOCK)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "another process is training in '%s'; stop it first, since it would not see the change",
                            edit.directory);
    else
        status = eitp__edit_replace(&edit, changes, count, error);
    if (host->files.lock && !code)
        host->files.unlock(host->files.user, lock);
    eitp__release_text(host, edit.directory);
    return status;
}

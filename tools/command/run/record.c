#include "run/record.h"

#include "files.h"
#include "model/model.h"
#include "options/json.h"
#include "options/table.h"
#include "output.h"

/* Options that are paths. */
static const option_id paths[] = {OPTION_DATA, OPTION_VAL_DATA, OPTION_MODEL, OPTION_TOKENIZER, OPTION_OFFLOAD_FILE};

/* ---- Writing ---- */

/* Returns the absolute path of a file in a new string. The file may be missing, but not its directory: then NULL. */
static char *find_absolute(const char *path) {
    char *absolute = realpath(path, NULL), *parent, *directory;
    const char *name = strrchr(path, '/');
    if (absolute)
        return absolute;
    parent = files_parent(path);
    directory = realpath(parent, NULL);
    absolute = directory ? files_join(directory, name ? name + 1 : path) : NULL;
    free(parent);
    free(directory);
    return absolute;
}

/* False for standard input and the byte tokenizer. */
static int is_path(option_id id, const char *text) {
    return strcmp(text, "-") && !(id == OPTION_TOKENIZER && model_is_bytes(text));
}

void record_make_absolute(option_set *o) {
    for (size_t i = 0; i < COMMAND_COUNT(paths); i++) {
        option_value *value = &o->values[paths[i]];
        for (size_t j = 0; j < value->count; j++) {
            char *absolute = is_path(paths[i], value->texts[j]) ? find_absolute(value->texts[j]) : NULL;
            if (!absolute)
                continue;
            free(value->texts[j]);
            value->texts[j] = absolute;
        }
    }
}

/* ---- A directory that was moved ---- */

/* Takes the output directory named in a run.json. */
static eitp_status take_directory(void *user, const json_value *value, eitp_error *error) {
    char **directory = (char **)user;
    (void)error;
    if (!strcmp(value->path, "run.directory") && value->kind == JSON_STRING && !*directory)
        *directory = command_copy(value->text);
    return EITP_OK;
}

/* Returns the same path in the new directory if the old path and its parent do not exist and the new parent does; else
   NULL. */
static char *find_moved(const char *path, const char *from, const char *to) {
    const size_t size = strlen(from);
    char *parent = files_parent(path), *moved;
    const int was_there = files_info(path).kind != EITP_PATH_MISSING || files_info(parent).kind != EITP_PATH_MISSING;
    free(parent);
    if (strncmp(path, from, size) || path[size] != '/' || was_there)
        return NULL;
    moved = files_join(to, path + size + 1);
    parent = files_parent(moved);
    if (files_info(parent).kind == EITP_PATH_MISSING) {
        free(moved);
        moved = NULL;
    }
    free(parent);
    return moved;
}

/* Replaces paths in the output directory named in a run.json if the checkpoint is now in another one. */
static void follow_move(option_set *o, const char *record, const char *checkpoint) {
    char *from = NULL, *parent = files_parent(checkpoint), *to = realpath(parent, NULL);
    eitp_error ignored;
    if (json_read_file(record, "", take_directory, &from, &ignored) || !from || !to || !strcmp(from, to)) {
        free(parent);
        free(from);
        free(to);
        return;
    }
    for (size_t i = 0; i < COMMAND_COUNT(paths); i++) {
        option_value *value = &o->values[paths[i]];
        for (size_t j = 0; j < value->count; j++) {
            char *moved = find_moved(value->texts[j], from, to);
            if (!moved)
                continue;
            free(value->texts[j]);
            value->texts[j] = moved;
        }
    }
    free(parent);
    free(from);
    free(to);
}

/* ---- Reading ---- */

void record_copy(const option_set *from, option_set *to) {
    eitp_error ignored;
    for (size_t id = 0; id < option_count(); id++) {
        const option_value *value = &from->values[id];
        for (size_t i = 0; i < value->count; i++)
            options_set(to, (option_id)id, value->texts[i], SOURCE_RUN, "", &ignored);
    }
}

/* Reads into a separate set, so that a damaged file sets nothing. */
static eitp_status read_file(option_set *o, const char *record, const char *checkpoint, eitp_error *error) {
    option_set recorded;
    eitp_status status;
    options_create(&recorded, "train", OPTIONS_TRAIN);
    status = options_read_config(&recorded, record, NULL, SOURCE_RUN, error);
    if (!status) {
        follow_move(&recorded, record, checkpoint);
        record_copy(&recorded, o);
    }
    options_release(&recorded);
    return status;
}

eitp_status record_read(option_set *o, const char *checkpoint, int *found, eitp_error *error) {
    char *parent = files_parent(checkpoint), *record = files_join(parent, "run.json");
    eitp_status status = EITP_OK;
    *found = 1;
    if (files_is_file(checkpoint, "run.json")) {
        free(record);
        record = files_join(checkpoint, "run.json");
        status = read_file(o, record, checkpoint, error);
    } else if (files_info(record).kind == EITP_PATH_FILE) {
        if (read_file(o, record, checkpoint, error)) {
            output_warning("%s; using the options of '%s' and of this command", error->message, checkpoint);
            *found = 0;
        }
    } else {
        *found = 0;
    }
    free(parent);
    free(record);
    return status;
}

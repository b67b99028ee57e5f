#include "task/task.h"

#include "data/labelled.h"
#include "files.h"
#include "options/profile.h"

/* In the order of the choices of --task after auto. */
static const task_kind *const kinds[] = {&task_language, &task_masked, &task_classification, &task_tokens,
                                         &task_regression};

/* ---- What the data says ---- */

/* A search for a directory in a directory. */
typedef struct folder_search {
    const char *directory;
    int found;
} folder_search;

static int try_folder(void *user, const char *name) {
    folder_search *search = (folder_search *)user;
    char *path = files_join(search->directory, name);
    search->found = files_info(path).kind == EITP_PATH_DIRECTORY;
    free(path);
    return search->found;
}

/* True for a directory of texts without directories in it. Its files may be labels, but more likely are just texts. */
static int is_plain_directory(const char *path) {
    const eitp_host host = command_host();
    folder_search search = {path, 0};
    if (files_info(path).kind != EITP_PATH_DIRECTORY)
        return 0;
    host.files.list(host.files.user, path, try_folder, &search);
    return !search.found;
}

/* The labels of the data that a classifier can learn. Token files and unreadable data have none. */
static labels_found find_labels(const option_set *o) {
    const option_value *paths = &o->values[OPTION_DATA];
    const int has_column = options_has(o, OPTION_LABEL_COLUMN);
    labels_found found = LABELS_NONE;
    int is_token_file = 1;
    eitp_error ignored;
    for (size_t i = 0; i < paths->count && !has_column; i++) {
        if (is_plain_directory(paths->texts[i]))
            return LABELS_NONE;
    }
    if (paths->count && !data_is_token_file(o, OPTION_DATA, &is_token_file, &ignored) && !is_token_file &&
        !data_has_input(o, OPTION_DATA))
        labelled_find_labels(o, OPTION_DATA, &found, &ignored);
    return found == LABELS_NONE && has_column ? LABELS_OF_TEXTS : found;
}

/* ---- Choosing ---- */

const task_kind *task_of_shape(const eitp_transformer_config *shape) {
    if (shape->head == EITP_HEAD_TOKEN_CLASSIFIER)
        return &task_tokens;
    if (shape->head == EITP_HEAD_CLASSIFIER)
        return shape->problem == EITP_PROBLEM_REGRESSION ? &task_regression : &task_classification;
    return shape->bidirectional ? &task_masked : &task_language;
}

const task_kind *task_choose(const option_set *o, const eitp_transformer_config *shape) {
    const int choice = options_choice(o, OPTION_TASK);
    const task_kind *kind = choice ? kinds[choice - 1] : task_of_shape(shape);
    if (choice || eitp_head_has_labels(shape->head) || (kind == &task_language && !options_has(o, OPTION_LABEL_COLUMN)))
        return kind;
    switch (find_labels(o)) {
    case LABELS_OF_TEXTS:
        return &task_classification;
    case LABELS_OF_WORDS:
        return &task_tokens;
    default:
        return kind;
    }
}

int task_has_rows(const option_set *o, const eitp_transformer_config *shape) {
    return eitp_head_has_labels(shape->head) || (task_of_shape(shape) == &task_masked && data_is_table(o, OPTION_DATA));
}

void task_set_classifier_batch(option_set *o) {
    if (profile_integer(o, OPTION_BATCH_SIZE))
        return;
    options_set_integer(o, OPTION_BATCH_SIZE, 16, SOURCE_DEFAULT);
    options_set_integer(o, OPTION_GRAD_ACCUM, 1, SOURCE_DEFAULT);
}

void task_set_planned_head(const option_set *o, eitp_transformer_config *shape) {
    const int choice = options_choice(o, OPTION_TASK);
    const task_kind *kind = choice ? kinds[choice - 1] : task_of_shape(shape);
    if (eitp_head_has_labels(kind->head) && shape->head != kind->head) {
        shape->labels = 2; /* the data would tell; memory hardly depends on it */
        shape->problem = kind->problem;
    }
    shape->head = kind->head;
}

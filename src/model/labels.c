#include "model/labels.h"
#include "gguf/model_json.h"

#include "base/sort.h"

static int eitp__compare_labels(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fails if two names are equal. */
static eitp_status eitp__labels_check(const eitp_host *host, const eitp__labels *labels, eitp_error *error) {
    const size_t bytes = (size_t)labels->count * sizeof *labels->names;
    const char **sorted = (const char **)eitp__allocate_uninitialized(host, bytes);
    eitp_status status = EITP_OK;
    if (!sorted)
        return eitp__fail_memory(error, bytes, "the names of labels");
    memcpy(sorted, labels->names, bytes);
    eitp__sort(sorted, (size_t)labels->count, sizeof *sorted, eitp__compare_labels);
    for (int64_t i = 1; i < labels->count && !status; i++) {
        if (!strcmp(sorted[i - 1], sorted[i]))
            status = eitp__fail(error, EITP_ERROR_ARGUMENT, "two labels are named '%.60s'", sorted[i]);
    }
    eitp__release(host, sorted, bytes);
    return status;
}

enum { EITP__DEFAULT_LABEL_SIZE = 32 };

static void eitp__default_label(int64_t number, char name[EITP__DEFAULT_LABEL_SIZE]) {
    snprintf(name, EITP__DEFAULT_LABEL_SIZE, "LABEL_%lld", (long long)number);
}

EITP__PRIVATE eitp_status eitp__labels_create(const eitp_host *host, const char *const *names, int64_t count,
                                              eitp__labels **labels, eitp_error *error) {
    size_t bytes = sizeof **labels + (size_t)count * sizeof(char *);
    eitp_status status;
    eitp__labels *created;
    char *text;
    for (int64_t i = 0; i < count; i++)
        bytes += names ? strlen(names[i]) + 1 : (size_t)EITP__DEFAULT_LABEL_SIZE;
    created = (eitp__labels *)eitp__allocate(host, bytes);
    if (!created)
        return eitp__fail_memory(error, bytes, "the names of labels");
    created->host = *host;
    created->count = count;
    created->bytes = bytes;
    created->names = (const char **)(void *)(created + 1);
    text = (char *)(created->names + count);
    for (int64_t i = 0; i < count; i++) {
        size_t size = names ? strlen(names[i]) + 1 : (size_t)EITP__DEFAULT_LABEL_SIZE;
        if (names)
            memcpy(text, names[i], size);
        else
            eitp__default_label(i, text);
        created->names[i] = text;
        text += size;
    }
    status = eitp__labels_check(host, created, error);
    if (status) {
        eitp__labels_release(created);
        return status;
    }
    *labels = created;
    return EITP_OK;
}

EITP__PRIVATE void eitp__labels_release(eitp__labels *labels) {
    eitp_host host;
    if (!labels)
        return;
    host = labels->host;
    eitp__release(&host, labels, labels->bytes);
}

EITP__PRIVATE int eitp__labels_are_numbers(const eitp__labels *labels) {
    char name[EITP__DEFAULT_LABEL_SIZE];
    for (int64_t i = 0; i < labels->count; i++) {
        eitp__default_label(i, name);
        if (strcmp(labels->names[i], name))
            return 0;
    }
    return 1;
}

/* ---- config.json ---- */

/* Finds the object id2label. *member is NULL if it is missing, null or empty. */
static eitp_status eitp__labels_member(const eitp_json *root, const eitp_json **member, eitp_error *error) {
    *member = eitp_json_member(root, "id2label");
    if (*member && (*member)->kind == EITP_JSON_NULL)
        *member = NULL;
    if (*member && (*member)->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: id2label must be an object", (*member)->line);
    if (*member && (int64_t)(*member)->count > EITP__MAX_LABELS)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: id2label has %zu labels; at most %lld are supported",
                          (*member)->line, (*member)->count, (long long)EITP__MAX_LABELS);
    *member = *member && (*member)->count ? *member : NULL;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labels_count(const eitp_json *root, int64_t *count, eitp_error *error) {
    const eitp_json *member;
    eitp_status status = eitp__labels_member(root, &member, error);
    if (!status && member)
        *count = (int64_t)member->count;
    return status ? status : eitp__json_get_integer(root, "num_labels", 1, EITP__MAX_LABELS, count, error);
}

/* Returns the number of a label, its key in id2label, or -1 if it is not a number below `count`. */
static int64_t eitp__label_number(const eitp_json *label, int64_t count) {
    int64_t number = 0;
    for (size_t i = 0; i < label->name_size; i++) {
        if (label->name[i] < '0' || label->name[i] > '9' || number >= count)
            return -1;
        number = 10 * number + (label->name[i] - '0');
    }
    return label->name_size && number < count ? number : -1;
}

/* Collects the names of labels from the document. */
static eitp_status eitp__labels_collect(const eitp_json *member, const char **names, eitp_error *error) {
    for (const eitp_json *label = member->first_child; label; label = label->next) {
        int64_t number = eitp__label_number(label, (int64_t)member->count);
        if (number < 0 || names[number])
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: '%.60s' in id2label must be one of the numbers 0 to %zu, each once",
                              label->line, label->name, member->count - 1);
        if (label->kind != EITP_JSON_STRING || strlen(label->text) != label->text_size)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: label %s in id2label must be a string without zero bytes", label->line,
                              label->name);
        names[number] = label->text;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labels_read(const eitp_host *host, const eitp_json *root, eitp__labels **labels,
                                            eitp_error *error) {
    const eitp_json *member;
    const char **names;
    size_t bytes;
    eitp_status status = eitp__labels_member(root, &member, error);
    *labels = NULL;
    if (status || !member)
        return status;
    bytes = member->count * sizeof *names;
    names = (const char **)eitp__allocate(host, bytes);
    if (!names)
        return eitp__fail_memory(error, bytes, "the names of labels");
    status = eitp__labels_collect(member, names, error);
    if (!status)
        status = eitp__labels_create(host, names, (int64_t)member->count, labels, error);
    eitp__release(host, names, bytes);
    return status;
}

EITP__PRIVATE eitp_status eitp__labels_read_file(const eitp_host *host, const char *path, eitp__labels **labels,
                                                 eitp_error *error) {
    enum { LIMIT = 16 << 20 };
    eitp_json_document *document = NULL;
    eitp_status status = eitp__model_json_read(host, path, LIMIT, &document, error);
    *labels = NULL;
    if (status)
        return status;
    status = eitp__labels_read(host, eitp_json_root(document), labels, error);
    if (status)
        status = eitp__fail_prefix(error, status, "%s", path);
    eitp_json_release(document);
    return status;
}

EITP__PRIVATE void eitp__labels_write(eitp__buffer *text, const eitp__labels *labels) {
    for (int by_name = 0; by_name < 2; by_name++) {
        eitp__buffer_format(text, "  \"%s\": {\n", by_name ? "label2id" : "id2label");
        for (int64_t i = 0; i < labels->count; i++) {
            const char *name = labels->names[i];
            eitp__buffer_add_text(text, "    ");
            if (by_name)
                eitp__json_write_text(text, name, strlen(name));
            else
                eitp__buffer_format(text, "\"%lld\"", (long long)i);
            eitp__buffer_add_text(text, ": ");
            if (by_name)
                eitp__buffer_format(text, "%lld", (long long)i);
            else
                eitp__json_write_text(text, name, strlen(name));
            eitp__buffer_add_text(text, i + 1 < labels->count ? ",\n" : "\n");
        }
        eitp__buffer_add_text(text, "  },\n");
    }
}

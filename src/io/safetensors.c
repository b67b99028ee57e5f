#include "io/safetensors.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "base/json.h"
#include "base/sort.h"

/*
 * The file: the size of the header in 8 bytes, little-endian; the header, a JSON object
 *   {"__metadata__": {text: text, ...}, name: {"dtype": text, "shape": [...], "data_offsets": [begin, end]}, ...}
 * perhaps with white space after it; the data, which the offsets count from.
 */

/* Values in one member of the header: far more than a tensor has, and enough for 20,000 metadata texts. */
#define EITP__SAFETENSORS_MEMBER_VALUES 65536

/* An index names every tensor of a model; 671 billion parameters need 9 MB. */
#define EITP__SAFETENSORS_LARGEST_INDEX ((size_t)32 << 20)

#define EITP__SAFETENSORS_CHUNK ((size_t)32 << 10)
#define EITP__SAFETENSORS_CHECKED_CHUNK ((size_t)256 << 10) /* stays in the cache for its checksum */

typedef struct eitp__safetensors_part {
    eitp__file file;
    char *header; /* begins with the names of its entries, once it is parsed */
    size_t header_size;
    uint64_t data_start;
    uint64_t data_size;
    eitp__json_document *metadata; /* {"__metadata__": {...}}, or NULL */
} eitp__safetensors_part;

struct eitp__safetensors {
    eitp_host host;
    eitp__safetensors_part **parts;
    size_t part_count;
    size_t part_capacity;
    eitp__safetensors_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
};

static const struct {
    const char *name;
    int dtype;
    unsigned bits;
} eitp__safetensors_types[] = {
    {"F32", EITP_F32, 32}, {"F64", EITP_F64, 64},  {"BF16", EITP_BF16, 16}, {"F16", EITP_F16, 16},
    {"I64", EITP_I64, 64}, {"I32", EITP_I32, 32},  {"I8", EITP_I8, 8},      {"U8", EITP_U8, 8},
    {"I16", EITP_I16, 16}, {"BOOL", -1, 8},        {"U16", -1, 16},         {"U32", -1, 32},
    {"U64", -1, 64},       {"C64", -1, 64},        {"F8_E4M3", -1, 8},      {"F8_E5M2", -1, 8},
    {"F8_E8M0", -1, 8},    {"F8_E4M3FNUZ", -1, 8}, {"F8_E5M2FNUZ", -1, 8},  {"F6_E2M3", -1, 6},
    {"F6_E3M2", -1, 6},    {"F4", -1, 4},
};

EITP__PRIVATE const char *eitp__safetensors_type(eitp_dtype dtype) {
    for (size_t i = 0; i < EITP__COUNT(eitp__safetensors_types) && eitp_dtype_size(dtype); i++) {
        if (eitp__safetensors_types[i].dtype == (int)dtype)
            return eitp__safetensors_types[i].name;
    }
    return NULL;
}

/*
 * One entry of the header.
 */

static eitp_status eitp__read_type(const eitp__json *value, eitp__safetensors_entry *entry, unsigned *bits,
                                   eitp_error *error) {
    const char *type = NULL;
    eitp_status status = eitp__json_get_text(value, "dtype", &type, error);
    if (status)
        return status;
    if (!type)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no \"dtype\"");
    entry->dtype = -1;
    snprintf(entry->type, sizeof entry->type, "%s", type);
    for (size_t i = 0; i < EITP__COUNT(eitp__safetensors_types); i++) {
        if (strcmp(eitp__safetensors_types[i].name, type))
            continue;
        entry->dtype = eitp__safetensors_types[i].dtype;
        *bits = eitp__safetensors_types[i].bits;
        entry->element_size = *bits % 8 ? 0 : *bits / 8;
    }
    return EITP_OK;
}

static eitp_status eitp__read_shape(const eitp__json *value, eitp__safetensors_entry *entry, eitp_error *error) {
    const eitp__json *shape = eitp__json_member(value, "shape"), *size;
    if (!shape || shape->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no array \"shape\"");
    if (shape->count > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "it has %llu dimensions, and eitp takes %d at most",
                          (unsigned long long)shape->count, EITP_MAX_RANK);
    entry->count = 1;
    for (size = shape->first_child; size; size = size->next) {
        if (size->kind != EITP__JSON_NUMBER || !size->is_integer || size->integer < 0 ||
            __builtin_mul_overflow(entry->count, size->integer, &entry->count))
            return eitp__fail(error, EITP_ERROR_FORMAT, "its \"shape\" is not of sizes from 0 on, or too large");
        entry->shape[entry->rank++] = size->integer;
    }
    return EITP_OK;
}

/* Where the data is: stores the beginning in entry->offset, counted from the beginning of the data. */
static eitp_status eitp__read_span(const eitp__json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                   eitp_error *error) {
    const eitp__json *offsets = eitp__json_member(value, "data_offsets"), *begin, *end;
    if (!offsets || offsets->kind != EITP__JSON_ARRAY || offsets->count != 2)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no \"data_offsets\" of two numbers");
    begin = offsets->first_child;
    end = begin->next;
    if (begin->kind != EITP__JSON_NUMBER || !begin->is_integer || end->kind != EITP__JSON_NUMBER || !end->is_integer ||
        begin->integer < 0 || end->integer < begin->integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "its \"data_offsets\" are not two numbers in order");
    if ((uint64_t)end->integer > data_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "it ends at byte %lld of the data, and there are %llu; the file is cut short: get it again",
                          (long long)end->integer, (unsigned long long)data_size);
    entry->offset = (uint64_t)begin->integer;
    entry->size = (uint64_t)(end->integer - begin->integer);
    return EITP_OK;
}

static eitp_status eitp__read_entry(const eitp__json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                    eitp_error *error) {
    unsigned bits = 0;
    uint64_t needed = 0;
    eitp_status status;
    if (value->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it is no object");
    status = eitp__read_type(value, entry, &bits, error);
    if (!status)
        status = eitp__read_shape(value, entry, error);
    if (!status)
        status = eitp__read_span(value, data_size, entry, error);
    if (status || !bits)
        return status;
    if (__builtin_mul_overflow((uint64_t)entry->count, (uint64_t)bits, &needed) || needed % 8 ||
        needed / 8 != entry->size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%lld elements of type %s do not take the %llu bytes it has",
                          (long long)entry->count, entry->type, (unsigned long long)entry->size);
    return EITP_OK;
}

/*
 * The header. It is parsed a member at a time: a tree of the whole would be many times as large as the file is.
 */

typedef struct eitp__header {
    eitp__safetensors_part *part;
    char *text; /* the part's header */
    size_t size;
    size_t at;     /* after the bracket or comma before the next member */
    size_t names;  /* bytes of names at the beginning of `text`; always less than `at` */
    size_t number; /* of the member, from 1 */
} eitp__header;

/* The index of the comma or bracket that ends the member that begins at header->at; the size of the text where there
   is none. What is between may be no JSON at all: that is for the parser to say. */
static size_t eitp__header_member_end(const eitp__header *header, size_t *values) {
    size_t depth = 0, i = header->at;
    int in_text = 0;
    *values = 0;
    for (; i < header->size; i++) {
        char c = header->text[i];
        if (in_text) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_text = 0;
        } else if (c == '"') {
            in_text = 1;
        } else if (c == '{' || c == '[') {
            depth++;
            ++*values;
        } else if (c == ',') {
            if (!depth)
                return i;
            ++*values;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return i;
            depth--;
        }
    }
    return header->size;
}

static int eitp__is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            return 0;
    }
    return 1;
}

/* Moves a name to the beginning of the header's memory, where it stays as long as the part. It was longer in the
   header: nothing that is still to be parsed is overwritten. */
static const char *eitp__header_keep_name(eitp__header *header, const eitp__json *member) {
    char *name = header->text + header->names;
    memcpy(name, member->name, member->name_size);
    name[member->name_size] = 0;
    header->names += member->name_size + 1;
    return name;
}

static eitp_status eitp__read_metadata(eitp__header *header, eitp__json_document *document, eitp_error *error) {
    const eitp__json *texts = eitp__json_root(document)->first_child;
    if (header->part->metadata)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" is there twice");
    if (texts->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" is no object");
    for (const eitp__json *text = texts->first_child; text; text = text->next) {
        if (text->kind != EITP__JSON_STRING)
            return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" has '%.100s', which is no string",
                              text->name);
    }
    header->part->metadata = document;
    return EITP_OK;
}

static eitp_status eitp__add_entry(eitp__safetensors *collection, eitp__header *header, const eitp__json *member,
                                   eitp_error *error) {
    eitp__safetensors_entry entry;
    void *entries = collection->entries;
    eitp_status status;
    memset(&entry, 0, sizeof entry);
    if (memchr(member->name, 0, member->name_size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "its name holds the character U+0000");
    status = eitp__read_entry(member, header->part->data_size, &entry, error);
    if (status)
        return eitp__fail_prefix(error, status, "tensor '%.100s'", member->name);
    if (!eitp__reserve(&collection->host, &entries, &collection->entry_capacity, collection->entry_count + 1,
                       sizeof entry))
        return eitp__fail_memory(error, (collection->entry_count + 1) * sizeof entry, "the list of tensors");
    collection->entries = (eitp__safetensors_entry *)entries;
    entry.name = eitp__header_keep_name(header, member);
    entry.part = collection->part_count - 1;
    entry.offset += header->part->data_start;
    collection->entries[collection->entry_count++] = entry;
    return EITP_OK;
}

/* The member at header->at, which ends at `end`. */
static eitp_status eitp__header_read_member(eitp__safetensors *collection, eitp__header *header, size_t end,
                                            eitp_error *error) {
    eitp__json_document *document = NULL;
    const eitp__json *root;
    eitp_status status;
    /* The bytes around a member, a bracket or a comma, have done their work: with brackets it is an object. */
    header->text[header->at - 1] = '{';
    header->text[end] = '}';
    status = eitp__json_parse(&collection->host, header->text + header->at - 1, end - header->at + 2, &document, error);
    if (status)
        return status;
    root = eitp__json_root(document);
    if (!root->count) {
        status = eitp__fail(error, EITP_ERROR_FORMAT, "there is a comma without a tensor after it");
    } else if (root->first_child->name_size == 12 && !memcmp(root->first_child->name, "__metadata__", 12)) {
        status = eitp__read_metadata(header, document, error);
        if (!status)
            return EITP_OK;
    } else {
        status = eitp__add_entry(collection, header, root->first_child, error);
    }
    eitp__json_release(document);
    return status;
}

static eitp_status eitp__header_read(eitp__safetensors *collection, eitp__header *header, eitp_error *error) {
    char closing = ',';
    if (header->text[0] != '{')
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header does not begin with '{'; this is no safetensors file");
    for (header->at = 1, header->number = 1; closing == ','; header->number++) {
        size_t values, end = eitp__header_member_end(header, &values);
        eitp_status status;
        if (end == header->size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "the header ends inside of entry %llu",
                              (unsigned long long)header->number);
        closing = header->text[end];
        if (header->number == 1 && closing == '}' && eitp__is_blank(header->text + 1, end - 1)) {
            header->at = end + 1;
            break;
        }
        if (values > EITP__SAFETENSORS_MEMBER_VALUES)
            return eitp__fail(error, EITP_ERROR_FORMAT, "entry %llu of the header has more than %d values",
                              (unsigned long long)header->number, EITP__SAFETENSORS_MEMBER_VALUES);
        status = eitp__header_read_member(collection, header, end, error);
        if (status)
            return eitp__fail_prefix(error, status, "entry %llu of the header", (unsigned long long)header->number);
        header->at = end + 1;
    }
    if (closing == ']' || !eitp__is_blank(header->text + header->at, header->size - header->at))
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header is no JSON object with only spaces after it");
    return EITP_OK;
}

/*
 * A file.
 */

typedef struct eitp__span {
    uint64_t begin;
    uint64_t end;
    const char *name;
} eitp__span;

static int eitp__compare_spans(const void *left, const void *right) {
    const eitp__span *a = (const eitp__span *)left, *b = (const eitp__span *)right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static eitp_status eitp__check_spans(const eitp__span *spans, size_t count, const eitp__safetensors_part *part,
                                     eitp_error *error) {
    uint64_t covered = part->data_start, end = part->data_start + part->data_size;
    for (size_t i = 0; i < count; i++) {
        if (spans[i].begin < covered)
            return eitp__fail(error, EITP_ERROR_FORMAT, "tensors '%.100s' and '%.100s' overlap", spans[i - 1].name,
                              spans[i].name);
        if (spans[i].begin > covered)
            return eitp__fail(error, EITP_ERROR_FORMAT, "%llu bytes before tensor '%.100s' belong to none",
                              (unsigned long long)(spans[i].begin - covered), spans[i].name);
        covered = spans[i].end;
    }
    if (covered < end)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the last %llu bytes belong to no tensor",
                          (unsigned long long)(end - covered));
    return EITP_OK;
}

/* Refuses tensors from `first` on that do not cover the data of their file exactly. */
static eitp_status eitp__check_cover(const eitp__safetensors *collection, size_t first, eitp_error *error) {
    size_t count = collection->entry_count - first;
    eitp__span *spans = (eitp__span *)eitp__allocate_uninitialized(&collection->host, count * sizeof *spans);
    eitp_status status;
    if (count && !spans)
        return eitp__fail_memory(error, count * sizeof *spans, "the list of tensors");
    for (size_t i = 0; i < count; i++) {
        spans[i].begin = collection->entries[first + i].offset;
        spans[i].end = spans[i].begin + collection->entries[first + i].size;
        spans[i].name = collection->entries[first + i].name;
    }
    eitp__sort(spans, count, sizeof *spans, eitp__compare_spans);
    status = eitp__check_spans(spans, count, collection->parts[collection->part_count - 1], error);
    eitp__release(&collection->host, spans, count * sizeof *spans);
    return status;
}

static int eitp__compare_entries(const void *left, const void *right) {
    const eitp__safetensors_entry *a = (const eitp__safetensors_entry *)left;
    const eitp__safetensors_entry *b = (const eitp__safetensors_entry *)right;
    return strcmp(a->name, b->name);
}

/* Sorts the entries from `first` on by name, and refuses a name that is there twice. */
static eitp_status eitp__sort_entries(eitp__safetensors *collection, size_t first, eitp_error *error) {
    eitp__safetensors_entry *entries = collection->entries;
    if (collection->entry_count == first)
        return EITP_OK;
    eitp__sort(entries + first, collection->entry_count - first, sizeof *entries, eitp__compare_entries);
    for (size_t i = first + 1; i < collection->entry_count; i++) {
        if (!strcmp(entries[i - 1].name, entries[i].name))
            return eitp__fail(error, EITP_ERROR_FORMAT, "tensor '%.100s' is there twice", entries[i].name);
    }
    return EITP_OK;
}

/* Reads the size of the header and the header. */
static eitp_status eitp__load_header(eitp__safetensors *collection, eitp__safetensors_part *part, eitp_error *error) {
    unsigned char bytes[8];
    uint64_t file_size = 0, header_size = 0;
    size_t done = 0;
    eitp_status status = eitp__file_size(&part->file, &file_size, error);
    if (!status)
        status = eitp__file_read_some(&part->file, 0, bytes, sizeof bytes, &done, error);
    if (status)
        return status;
    for (size_t i = done; i-- > 0;)
        header_size = header_size << 8 | bytes[i];
    if (done == sizeof bytes && !memcmp(bytes, "version ", sizeof bytes))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' seems to be a Git LFS pointer; get the file itself with: git lfs pull",
                          part->file.path);
    if (done < sizeof bytes || file_size < sizeof bytes + 2 || header_size < 2 ||
        header_size > file_size - sizeof bytes || header_size > EITP__SAFETENSORS_LARGEST_HEADER)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "'%s' is no safetensors file, or is cut short: %llu bytes with a header of %llu; get it again",
            part->file.path, (unsigned long long)file_size, (unsigned long long)header_size);
    part->header = (char *)eitp__allocate_uninitialized(&collection->host, (size_t)header_size);
    if (!part->header)
        return eitp__fail_memory(error, (size_t)header_size, "the header of a safetensors file");
    part->header_size = (size_t)header_size;
    part->data_start = sizeof bytes + header_size;
    part->data_size = file_size - part->data_start;
    return eitp__file_read(&part->file, sizeof bytes, part->header, part->header_size, error);
}

/* Adds a file and its entries, sorted by name. What is made belongs to the collection, on failure too. */
static eitp_status eitp__add_part(eitp__safetensors *collection, const char *path, eitp_error *error) {
    eitp__safetensors_part *part;
    eitp__header header;
    void *parts = collection->parts;
    size_t first = collection->entry_count;
    eitp_status status;
    if (!eitp__reserve(&collection->host, &parts, &collection->part_capacity, collection->part_count + 1,
                       sizeof *collection->parts))
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts = (eitp__safetensors_part **)parts;
    part = (eitp__safetensors_part *)eitp__allocate(&collection->host, sizeof *part);
    if (!part)
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts[collection->part_count++] = part;
    status = eitp__file_open(&part->file, &collection->host, path, EITP_FILE_READ, error);
    if (!status)
        status = eitp__load_header(collection, part, error);
    if (status)
        return status;
    memset(&header, 0, sizeof header);
    header.part = part;
    header.text = part->header;
    header.size = part->header_size;
    status = eitp__header_read(collection, &header, error);
    if (!status)
        status = eitp__check_cover(collection, first, error);
    if (!status)
        status = eitp__sort_entries(collection, first, error);
    return status ? eitp__fail_prefix(error, status, "%s", path) : EITP_OK;
}

static eitp_status eitp__new_collection(const eitp_host *host, eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *made = (eitp__safetensors *)eitp__allocate(host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a safetensors file");
    made->host = *host;
    *collection = made;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *made = NULL;
    eitp_status status = eitp__new_collection(host, &made, error);
    if (!status)
        status = eitp__add_part(made, path, error);
    if (status)
        eitp__safetensors_close(made);
    else
        *collection = made;
    return status;
}

EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection) {
    eitp_host host;
    if (!collection)
        return;
    host = collection->host;
    for (size_t i = 0; i < collection->part_count; i++) {
        eitp__safetensors_part *part = collection->parts[i];
        eitp__file_close(&part->file, NULL);
        eitp__release(&host, part->header, part->header_size);
        eitp__json_release(part->metadata);
        eitp__release(&host, part, sizeof *part);
    }
    eitp__release(&host, collection->parts, collection->part_capacity * sizeof *collection->parts);
    eitp__release(&host, collection->entries, collection->entry_capacity * sizeof *collection->entries);
    eitp__release(&host, collection, sizeof *collection);
}

/*
 * An index of several files.
 */

typedef struct eitp__weight {
    const char *name;
    const char *file;
} eitp__weight;

static int eitp__compare_weights(const void *left, const void *right) {
    const eitp__weight *a = (const eitp__weight *)left, *b = (const eitp__weight *)right;
    int order = strcmp(a->file, b->file);
    return order ? order : strcmp(a->name, b->name);
}

/* A name without a way out of the index's directory. */
static int eitp__is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") && strcmp(name, "..");
}

static eitp_status eitp__read_weights(const eitp__json *map, eitp__weight *weights, eitp_error *error) {
    size_t count = 0;
    for (const eitp__json *member = map->first_child; member; member = member->next, count++) {
        if (member->kind != EITP__JSON_STRING || memchr(member->text, 0, member->text_size) ||
            !eitp__is_plain_name(member->text))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %llu: '%.100s' must be in a file of the same directory, given by its name alone",
                              (unsigned long long)member->line, member->name);
        if (memchr(member->name, 0, member->name_size))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: a name holds the character U+0000",
                              (unsigned long long)member->line);
        weights[count].name = member->name;
        weights[count].file = member->text;
    }
    eitp__sort(weights, count, sizeof *weights, eitp__compare_weights);
    return EITP_OK;
}

/* Adds one file, and of its entries those that are in weights[0, count), which all name it. */
static eitp_status eitp__add_weights(eitp__safetensors *collection, const char *directory, const eitp__weight *weights,
                                     size_t count, eitp_error *error) {
    size_t first = collection->entry_count, kept = first;
    char *path = eitp__join_path(&collection->host, directory, weights[0].file);
    eitp_status status;
    if (!path)
        return eitp__fail_memory(error, strlen(directory) + strlen(weights[0].file) + 2, "the name of a file");
    status = eitp__add_part(collection, path, error);
    eitp__release_text(&collection->host, path);
    if (status)
        return status;
    /* Both are sorted by name. */
    for (size_t i = first, next = 0; next < count; i++) {
        int order = i < collection->entry_count ? strcmp(collection->entries[i].name, weights[next].name) : 1;
        if (order > 0)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "tensor '%.100s' is not in '%.100s', where the index says it is; get both again",
                              weights[next].name, weights[next].file);
        if (order < 0)
            continue;
        collection->entries[kept++] = collection->entries[i];
        next++;
    }
    collection->entry_count = kept;
    return EITP_OK;
}

static eitp_status eitp__add_weight_map(eitp__safetensors *collection, const char *directory, const eitp__json *map,
                                        eitp_error *error) {
    size_t bytes = map->count * sizeof(eitp__weight);
    eitp__weight *weights = (eitp__weight *)eitp__allocate_uninitialized(&collection->host, bytes);
    eitp_status status;
    if (bytes && !weights)
        return eitp__fail_memory(error, bytes, "the list of tensors");
    status = eitp__read_weights(map, weights, error);
    for (size_t begin = 0, end = 0; begin < map->count && !status; begin = end) {
        while (end < map->count && !strcmp(weights[begin].file, weights[end].file))
            end++;
        status = eitp__add_weights(collection, directory, weights + begin, end - begin, error);
    }
    eitp__release(&collection->host, weights, bytes);
    return status ? status : eitp__sort_entries(collection, 0, error);
}

/* The directory part of a path, with its slash; empty where there is none. */
static char *eitp__copy_directory(const eitp_host *host, const char *path) {
    const char *slash = strrchr(path, '/');
    return eitp__copy_bytes(host, path, slash ? (size_t)(slash - path) + 1 : 0);
}

EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error) {
    eitp__json_document *index = NULL;
    eitp__safetensors *made = NULL;
    const eitp__json *map;
    char *directory;
    eitp_status status = eitp__json_read_file(host, path, EITP__SAFETENSORS_LARGEST_INDEX, &index, error);
    if (status)
        return status;
    directory = eitp__copy_directory(host, path);
    map = eitp__json_member(eitp__json_root(index), "weight_map");
    if (!directory)
        status = eitp__fail_memory(error, strlen(path) + 1, "the name of a directory");
    else if (!map || map->kind != EITP__JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "it has no object \"weight_map\"; this is no safetensors index");
    else
        status = eitp__new_collection(host, &made, error);
    if (!status)
        status = eitp__add_weight_map(made, directory, map, error);
    eitp__release_text(host, directory);
    eitp__json_release(index);
    if (status) {
        eitp__safetensors_close(made);
        return eitp__fail_prefix(error, status, "%s", path);
    }
    *collection = made;
    return EITP_OK;
}

/*
 * Looking up and reading.
 */

EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection) {
    return collection->entry_count;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index) {
    return index < collection->entry_count ? &collection->entries[index] : NULL;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name) {
    size_t low = 0, high = collection->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(collection->entries[middle].name, name);
        if (!order)
            return &collection->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry) {
    return collection->parts[entry->part]->file.path;
}

EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key) {
    for (size_t i = 0; i < collection->part_count; i++) {
        const eitp__json_document *document = collection->parts[i]->metadata;
        const eitp__json *text = document ? eitp__json_member(eitp__json_root(document)->first_child, key) : NULL;
        if (text)
            return text->text;
    }
    return NULL;
}

/* Checks a range of elements and stores its place in the file. */
static eitp_status eitp__locate(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                int64_t first, int64_t count, uint64_t *offset, size_t *size, eitp_error *error) {
    const char *path = eitp__safetensors_path(collection, entry);
    if (!entry->element_size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has type %s, which cannot be read; convert it to F32, F16 or BF16", path,
                          entry->name, entry->type);
    if (first < 0 || count < 0 || count > entry->count || first > entry->count - count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: tensor '%.100s' has %lld elements; %lld from %lld on were asked for", path, entry->name,
                          (long long)entry->count, (long long)count, (long long)first);
    /* The whole tensor is in a file: its size in bytes is known not to overflow 64 bits. */
    *offset = entry->offset + (uint64_t)first * entry->element_size;
    if ((uint64_t)count > SIZE_MAX / entry->element_size)
        return eitp__fail_memory(error, SIZE_MAX, entry->name);
    *size = (size_t)count * entry->element_size;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error) {
    eitp__file *file = &collection->parts[entry->part]->file;
    unsigned char *bytes = (unsigned char *)destination;
    uint64_t offset = 0;
    size_t size = 0;
    eitp_status status = eitp__locate(collection, entry, first, count, &offset, &size, error);
    while (!status && size) {
        size_t part = crc && size > EITP__SAFETENSORS_CHECKED_CHUNK ? EITP__SAFETENSORS_CHECKED_CHUNK : size;
        status = eitp__file_read(file, offset, bytes, part, error);
        if (!status && crc)
            *crc = eitp__crc32c(*crc, bytes, part);
        bytes += part;
        offset += part;
        size -= part;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error) {
    unsigned char chunk[EITP__SAFETENSORS_CHUNK];
    int64_t most;
    uint64_t offset;
    size_t size;
    eitp_status status;
    if (entry->dtype == EITP_F32)
        return eitp__safetensors_read(collection, entry, first, count, destination, crc, error);
    if (entry->dtype < 0 || !eitp__is_floating((eitp_dtype)entry->dtype))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has type %s where F32, F64, F16 or BF16 is needed",
                          eitp__safetensors_path(collection, entry), entry->name, entry->type);
    /* The range is refused before anything is stored. */
    status = eitp__locate(collection, entry, first, count, &offset, &size, error);
    if (status)
        return status;
    most = (int64_t)(sizeof chunk / entry->element_size);
    while (count) {
        int64_t part = count > most ? most : count;
        status = eitp__safetensors_read(collection, entry, first, part, chunk, crc, error);
        if (status)
            return status;
        eitp__convert_to_f32((eitp_dtype)entry->dtype, chunk, destination, (size_t)part);
        destination += part;
        first += part;
        count -= part;
    }
    return EITP_OK;
}

#include "io/safetensors_header.h"
#include "base/checksum.h"
#include "base/sort.h"

/*
 * The format: the size of the header in 8 bytes, little-endian; the header, a JSON object
 *   {"__metadata__": {text: text, ...}, name: {"dtype": text, "shape": [...], "data_offsets": [begin, end]}, ...}
 * optionally followed by white space; the data. Offsets are relative to the start of the data.
 */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "eitp supports little-endian systems only"
#endif

/* Maximum number of values in a member of the header: far more than a tensor has, and enough for 20,000 metadata
   strings. */
#define EITP__SAFETENSORS_MEMBER_VALUES 65536

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

/* ---- An entry of the header ---- */

EITP__PRIVATE unsigned eitp__safetensors_set_type(eitp__safetensors_entry *entry, const char *type) {
    unsigned bits = 0;
    entry->dtype = -1;
    snprintf(entry->type, sizeof entry->type, "%s", type);
    for (size_t i = 0; i < EITP__COUNT(eitp__safetensors_types); i++) {
        if (strcmp(eitp__safetensors_types[i].name, type))
            continue;
        entry->dtype = eitp__safetensors_types[i].dtype;
        bits = eitp__safetensors_types[i].bits;
    }
    entry->element_size = bits % 8 ? 0 : bits / 8;
    return bits;
}

static eitp_status eitp__read_type(const eitp_json *value, eitp__safetensors_entry *entry, unsigned *bits,
                                   eitp_error *error) {
    const char *type = NULL;
    eitp_status status = eitp__json_get_text(value, "dtype", &type, error);
    if (status)
        return status;
    if (!type)
        return eitp__fail(error, EITP_ERROR_FORMAT, "missing \"dtype\"");
    *bits = eitp__safetensors_set_type(entry, type);
    return EITP_OK;
}

static eitp_status eitp__read_shape(const eitp_json *value, eitp__safetensors_entry *entry, eitp_error *error) {
    const eitp_json *shape = eitp_json_member(value, "shape"), *size;
    if (!shape || shape->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"shape\" must be an array");
    if (shape->count > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%llu dimensions exceed the limit of %d",
                          (unsigned long long)shape->count, EITP_MAX_RANK);
    entry->count = 1;
    for (size = shape->first_child; size; size = size->next) {
        if (size->kind != EITP_JSON_NUMBER || !size->is_integer || size->integer < 0 ||
            __builtin_mul_overflow(entry->count, size->integer, &entry->count))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "\"shape\" must list sizes of 0 or more, and must not be too large");
        entry->shape[entry->rank++] = size->integer;
    }
    return EITP_OK;
}

/* Reads data_offsets. entry->offset is relative to the start of the data. */
static eitp_status eitp__read_span(const eitp_json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                   eitp_error *error) {
    const eitp_json *offsets = eitp_json_member(value, "data_offsets"), *begin, *end;
    if (!offsets || offsets->kind != EITP_JSON_ARRAY || offsets->count != 2)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"data_offsets\" must be an array of two numbers");
    begin = offsets->first_child;
    end = begin->next;
    if (begin->kind != EITP_JSON_NUMBER || !begin->is_integer || end->kind != EITP_JSON_NUMBER || !end->is_integer ||
        begin->integer < 0 || end->integer < begin->integer)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "\"data_offsets\" must be two numbers of 0 or more, in ascending order");
    if ((uint64_t)end->integer > data_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "ends at byte %lld of the data, which has %llu; the file is truncated: download it again",
                          (long long)end->integer, (unsigned long long)data_size);
    entry->offset = (uint64_t)begin->integer;
    entry->size = (uint64_t)(end->integer - begin->integer);
    return EITP_OK;
}

static eitp_status eitp__read_entry(const eitp_json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                    eitp_error *error) {
    unsigned bits = 0;
    uint64_t needed = 0;
    eitp_status status;
    if (value->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "expected an object");
    status = eitp__read_type(value, entry, &bits, error);
    if (!status)
        status = eitp__read_shape(value, entry, error);
    if (!status)
        status = eitp__read_span(value, data_size, entry, error);
    if (status || !bits)
        return status;
    if (__builtin_mul_overflow((uint64_t)entry->count, (uint64_t)bits, &needed) || needed % 8 ||
        needed / 8 != entry->size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%lld elements of type %s do not fit its %llu bytes",
                          (long long)entry->count, entry->type, (unsigned long long)entry->size);
    return EITP_OK;
}

/* ---- The header ---- */

/* State of parsing the header, one member at a time: a tree of the whole header would be many times the file's size. */
typedef struct eitp__header {
    eitp__safetensors_part *part;
    char *text; /* the part's header */
    size_t size;
    size_t at;     /* start of the next member, after a bracket or comma */
    size_t names;  /* bytes of names kept at the start of `text`; always less than `at` */
    size_t number; /* of the member, from 1 */
} eitp__header;

/* Returns the index of the comma or bracket that ends the member at header->at, or the size of the text if there is
   none. The member need not be valid JSON: the parser checks that. */
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

/* Moves a name to the start of the header's memory, where it lives as long as the part. Nothing that remains to be
   parsed is overwritten, because a member is longer than its name. */
static const char *eitp__header_keep_name(eitp__header *header, const eitp_json *member) {
    char *name = header->text + header->names;
    memcpy(name, member->name, member->name_size);
    name[member->name_size] = 0;
    header->names += member->name_size + 1;
    return name;
}

static eitp_status eitp__read_metadata(eitp__header *header, eitp_json_document *document, eitp_error *error) {
    const eitp_json *texts = eitp_json_root(document)->first_child;
    if (header->part->metadata)
        return eitp__fail(error, EITP_ERROR_FORMAT, "duplicate \"__metadata__\"");
    if (texts->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" must be an object");
    for (const eitp_json *text = texts->first_child; text; text = text->next) {
        if (text->kind != EITP_JSON_STRING)
            return eitp__fail(error, EITP_ERROR_FORMAT, "'%.100s' in \"__metadata__\" must be a string", text->name);
    }
    header->part->metadata = document;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_add_entry(eitp__safetensors *collection, eitp__safetensors_entry entry,
                                                      eitp_error *error) {
    void *entries = collection->entries;
    if (!eitp__reserve(&collection->host, &entries, &collection->entry_capacity, collection->entry_count + 1,
                       sizeof entry))
        return eitp__fail_memory(error, (collection->entry_count + 1) * sizeof entry, "the list of tensors");
    collection->entries = (eitp__safetensors_entry *)entries;
    entry.part = collection->part_count - 1;
    collection->entries[collection->entry_count++] = entry;
    return EITP_OK;
}

static eitp_status eitp__add_entry(eitp__safetensors *collection, eitp__header *header, const eitp_json *member,
                                   eitp_error *error) {
    eitp__safetensors_entry entry;
    eitp_status status;
    memset(&entry, 0, sizeof entry);
    if (memchr(member->name, 0, member->name_size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "tensor name contains the character U+0000");
    status = eitp__read_entry(member, header->part->data_size, &entry, error);
    if (status)
        return eitp__fail_prefix(error, status, "tensor '%.100s'", member->name);
    entry.name = eitp__header_keep_name(header, member);
    entry.offset += header->part->data_start;
    return eitp__safetensors_add_entry(collection, entry, error);
}

/* Parses the member from header->at to `end`. */
static eitp_status eitp__header_read_member(eitp__safetensors *collection, eitp__header *header, size_t end,
                                            eitp_error *error) {
    eitp_json_document *document = NULL;
    const eitp_json *root;
    eitp_status status;
    /* Brackets in place of the bytes around the member, which are no longer needed, make it an object. */
    header->text[header->at - 1] = '{';
    header->text[end] = '}';
    status = eitp_json_parse(&collection->host, header->text + header->at - 1, end - header->at + 2, &document, error);
    if (status)
        return status;
    root = eitp_json_root(document);
    if (!root->count) {
        status = eitp__fail(error, EITP_ERROR_FORMAT, "expected a tensor");
    } else if (root->first_child->name_size == 12 && !memcmp(root->first_child->name, "__metadata__", 12)) {
        status = eitp__read_metadata(header, document, error);
        if (!status)
            return EITP_OK;
    } else {
        status = eitp__add_entry(collection, header, root->first_child, error);
    }
    eitp_json_release(document);
    return status;
}

static eitp_status eitp__header_read(eitp__safetensors *collection, eitp__header *header, eitp_error *error) {
    char closing = ',';
    if (header->text[0] != '{')
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header does not start with '{'; not a safetensors file");
    for (header->at = 1, header->number = 1; closing == ','; header->number++) {
        size_t values, end = eitp__header_member_end(header, &values);
        eitp_status status;
        if (end == header->size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "the header ends inside entry %llu",
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
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header must be a JSON object followed by white space only");
    return EITP_OK;
}

/* ---- The whole file ---- */

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
            return eitp__fail(error, EITP_ERROR_FORMAT, "%llu bytes before tensor '%.100s' belong to no tensor",
                              (unsigned long long)(spans[i].begin - covered), spans[i].name);
        covered = spans[i].end;
    }
    if (covered < end)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the last %llu bytes belong to no tensor",
                          (unsigned long long)(end - covered));
    return EITP_OK;
}

/* Checks that the tensors from `first` on cover the data of their file exactly. */
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

EITP__PRIVATE eitp_status eitp__safetensors_sort(eitp__safetensors *collection, size_t first, eitp_error *error) {
    eitp__safetensors_entry *entries = collection->entries;
    if (collection->entry_count == first)
        return EITP_OK;
    eitp__sort(entries + first, collection->entry_count - first, sizeof *entries, eitp__compare_entries);
    for (size_t i = first + 1; i < collection->entry_count; i++) {
        if (!strcmp(entries[i - 1].name, entries[i].name))
            return eitp__fail(error, EITP_ERROR_FORMAT, "duplicate tensor '%.100s'", entries[i].name);
    }
    return EITP_OK;
}

/* Reads the header of a part's file into memory. */
static eitp_status eitp__load_header(const eitp_host *host, eitp__safetensors_part *part, eitp_error *error) {
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
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is a Git LFS pointer; fetch the file with: git lfs pull",
                          part->file.path);
    if (done < sizeof bytes || file_size < sizeof bytes + 2 || header_size < 2 ||
        header_size > file_size - sizeof bytes || header_size > EITP__SAFETENSORS_MAX_HEADER)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "'%s' is not a safetensors file, or is truncated: %llu bytes with a header of %llu; download it again",
            part->file.path, (unsigned long long)file_size, (unsigned long long)header_size);
    part->header = (char *)eitp__allocate_uninitialized(host, (size_t)header_size);
    if (!part->header)
        return eitp__fail_memory(error, (size_t)header_size, "the header of a safetensors file");
    part->header_size = (size_t)header_size;
    part->data_start = sizeof bytes + header_size;
    part->data_size = file_size - part->data_start;
    status = eitp__file_read(&part->file, sizeof bytes, part->header, part->header_size, error);
    if (!status) /* before parsing, which changes it */
        part->crc = eitp__crc32c_join(
            eitp__crc32c(eitp__crc32c(0, bytes, sizeof bytes), part->header, part->header_size), 0, part->data_size);
    return status;
}

/* Parses and checks the header of the last part, and adds its entries, sorted by name. */
static eitp_status eitp__parse_header(eitp__safetensors *collection, eitp__safetensors_part *part, eitp_error *error) {
    const size_t first = collection->entry_count;
    eitp__header header;
    eitp_status status;
    memset(&header, 0, sizeof header);
    header.part = part;
    header.text = part->header;
    header.size = part->header_size;
    status = eitp__header_read(collection, &header, error);
    if (!status)
        status = eitp__check_cover(collection, first, error);
    return status ? status : eitp__safetensors_sort(collection, first, error);
}

EITP__PRIVATE eitp_status eitp__safetensors_read_header(eitp__safetensors *collection, eitp__safetensors_part *part,
                                                        eitp_error *error) {
    eitp_status status = eitp__load_header(&collection->host, part, error);
    if (status)
        return status;
    status = eitp__parse_header(collection, part, error);
    return status ? eitp__fail_prefix(error, status, "%s", part->file.path) : EITP_OK;
}

/* Reading and writing safetensors, in one file and in several files. */
#include "tests/support/everything.h"

#include "base/checksum.h"
#include "base/convert.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

#include "tests/support/faults.h"

#include <sys/stat.h>

static char directory[512];

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

static int is_there(const char *name) {
    struct stat info;
    return !stat(in(name), &info);
}

static void put(const char *name, const void *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    CHECK_THAT(!eitp__write_file(&host, in(name), data, size, &error), "%s", error.message);
}

/* Writes a file with a header and `data_size` bytes of data: 0, 1, 2, ... */
static void put_header(const char *name, const char *header, size_t data_size) {
    unsigned char bytes[2048];
    size_t size = strlen(header);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)size >> (8 * i));
    memcpy(bytes + 8, header, size);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + size + i] = (unsigned char)i;
    put(name, bytes, 8 + size + data_size);
}

static eitp__safetensors *open_file(const char *path, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    eitp_status status = eitp__safetensors_open(&host, path, &collection, error);
    CHECK((status == EITP_OK) == (collection != NULL));
    return collection;
}

static int read_f32(const eitp__safetensors *collection, const char *name, float *values) {
    eitp_error error;
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, name);
    return entry && !eitp__safetensors_read_f32(collection, entry, 0, entry->count, values, NULL, &error);
}

/* A file written by the reference implementation, version 0.8.0. */
static void reads_what_the_official_library_writes(void) {
    static const char *const names[] = {"bytes", "double", "empty", "h.0.ln_1.bias", "h.0.mlp.weight",
                                        "mask",  "short",  "step",  "wte.weight"};
    static const float wte[] = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, bias[] = {1.5f, -2, INFINITY, 5.9604645e-8f, 65504};
    static const float mlp[] = {1, -3, 0.15625f}, wide[] = {0.1f, -INFINITY, 2.5f};
    eitp_error error;
    float values[8];
    int64_t step = 0;
    unsigned char bytes[3];
    int16_t shorts[2];
    eitp__safetensors *collection = open_file("tests/fuzz/corpus/safetensors/official.safetensors", &error);
    CHECK_THAT(collection, "%s", error.message);
    REQUIRE(collection);
    CHECK(eitp__safetensors_count(collection) == EITP__COUNT(names));
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        CHECK(!strcmp(eitp__safetensors_at(collection, i)->name, names[i]));
        CHECK(eitp__safetensors_find(collection, names[i]) == eitp__safetensors_at(collection, i));
    }
    CHECK(!eitp__safetensors_at(collection, EITP__COUNT(names)) && !eitp__safetensors_find(collection, "wte"));
    CHECK(!strcmp(eitp__safetensors_metadata(collection, "format"), "pt"));
    CHECK(!strcmp(eitp__safetensors_metadata(collection, "note"), "caf\xc3\xa9 \"quoted\""));
    CHECK(!eitp__safetensors_metadata(collection, "none"));
    CHECK(read_f32(collection, "wte.weight", values) && !memcmp(values, wte, sizeof wte));
    CHECK(read_f32(collection, "h.0.ln_1.bias", values) && !memcmp(values, bias, sizeof bias));
    CHECK(read_f32(collection, "h.0.mlp.weight", values) && !memcmp(values, mlp, sizeof mlp));
    CHECK(values[3] > 0.99e30f && values[3] < 1.01e30f);
    CHECK(read_f32(collection, "double", values) && !memcmp(values, wide, sizeof wide));
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, "step");
    CHECK(entry->rank == 0 && entry->count == 1 && entry->dtype == EITP_I64 && entry->element_size == 8);
    CHECK(!eitp__safetensors_read(collection, entry, 0, 1, &step, NULL, &error) && step == 123456789012345);
    entry = eitp__safetensors_find(collection, "wte.weight");
    CHECK(entry->rank == 2 && entry->shape[0] == 2 && entry->shape[1] == 3 && entry->size == 24);
    CHECK(!eitp__safetensors_read_f32(collection, entry, 2, 3, values, NULL, &error) && values[2] == 1);
    entry = eitp__safetensors_find(collection, "empty");
    CHECK(entry->rank == 2 && entry->shape[1] == 4 && entry->count == 0);
    CHECK(!eitp__safetensors_read(collection, entry, 0, 0, NULL, NULL, &error));
    entry = eitp__safetensors_find(collection, "mask");
    CHECK(entry->dtype == -1 && !strcmp(entry->type, "BOOL"));
    CHECK(!eitp__safetensors_read(collection, entry, 0, 3, bytes, NULL, &error) && bytes[0] == 1 && bytes[1] == 0);
    entry = eitp__safetensors_find(collection, "short");
    CHECK(!eitp__safetensors_read(collection, entry, 0, 2, shorts, NULL, &error) && shorts[1] == 300);
    CHECK(eitp__safetensors_read_f32(collection, entry, 0, 2, values, NULL, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error.message, "tensor 'short' has unsupported dtype I16 (expected F32, F16, BF16 or F64)"), "%s",
               error.message);
    entry = eitp__safetensors_find(collection, "bytes");
    CHECK(entry->dtype == EITP_U8 && entry->size == 3);
    CHECK(!strcmp(eitp__safetensors_path(collection, entry), "tests/fuzz/corpus/safetensors/official.safetensors"));
    eitp__safetensors_close(collection);
    eitp__safetensors_close(NULL);
}

static void ranges_are_checked(void) {
    static const int64_t bad[][2] = {{0, 7}, {6, 1}, {-1, 1}, {1, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
    eitp_error error;
    float values[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    eitp__safetensors *collection = open_file("tests/fuzz/corpus/safetensors/official.safetensors", &error);
    REQUIRE(collection);
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, "wte.weight");
    const eitp__safetensors_entry *half = eitp__safetensors_find(collection, "h.0.ln_1.bias");
    for (size_t i = 0; i < EITP__COUNT(bad); i++) {
        CHECK(eitp__safetensors_read(collection, entry, bad[i][0], bad[i][1], values, NULL, &error) ==
              EITP_ERROR_ARGUMENT);
        CHECK(eitp__safetensors_read_f32(collection, half, bad[i][0], bad[i][1], values, NULL, &error) ==
              EITP_ERROR_ARGUMENT);
    }
    CHECK(values[0] == 9);
    eitp__safetensors_close(collection);
}

static void refuses_invalid_headers(void) {
    static const struct {
        const char *header;
        size_t data_size;
        eitp_status status;
        const char *message;
    } cases[] = {
        {"[]", 0, EITP_ERROR_FORMAT, "does not start with '{'"},
        {" {}", 0, EITP_ERROR_FORMAT, "does not start with '{'"},
        {"{} x", 0, EITP_ERROR_FORMAT, "followed by white space only"},
        {"{]", 0, EITP_ERROR_FORMAT, "entry 1 of the header"},
        {"{,}", 0, EITP_ERROR_FORMAT, "entry 1 of the header: expected a tensor"},
        {"{\"a\":{}", 0, EITP_ERROR_FORMAT, "ends inside entry 1"},
        {"{\"a", 0, EITP_ERROR_FORMAT, "ends inside entry 1"},
        {"{\"a\":1}", 0, EITP_ERROR_FORMAT, "tensor 'a': expected an object"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}]", 1, EITP_ERROR_FORMAT,
         "must be a JSON object"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", 1, EITP_ERROR_FORMAT, "entry 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}\"b\":1}", 1, EITP_ERROR_FORMAT, "entry 1"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT, "missing \"dtype\""},
        {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "'dtype' must be a string"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT, "\"shape\" must be an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "\"shape\" must be an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "\"shape\" must list sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "\"shape\" must list sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "\"shape\" must list sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_UNSUPPORTED,
         "tensor 'a': 7 dimensions exceed the limit of 6"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, EITP_ERROR_FORMAT,
         "too large"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, EITP_ERROR_FORMAT,
         "do not fit its 0 bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, EITP_ERROR_FORMAT, "\"data_offsets\" must be an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, EITP_ERROR_FORMAT,
         "\"data_offsets\" must be an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, EITP_ERROR_FORMAT, "two numbers"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, EITP_ERROR_FORMAT, "in ascending order"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, EITP_ERROR_FORMAT,
         "in ascending order"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[null,1]}}", 1, EITP_ERROR_FORMAT,
         "in ascending order"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, EITP_ERROR_FORMAT,
         "ends at byte 2 of the data, which has 1; the file is truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,7]}}", 7, EITP_ERROR_FORMAT,
         "2 elements of type F32 do not fit its 7 bytes"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT,
         "3 elements of type F4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         7, EITP_ERROR_FORMAT, "tensors 'a' and 'b' overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         4, EITP_ERROR_FORMAT, "overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
         9, EITP_ERROR_FORMAT, "1 bytes before tensor 'b' belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, EITP_ERROR_FORMAT, "before tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 6, EITP_ERROR_FORMAT,
         "the last 2 bytes belong to no tensor"},
        {"{}", 1, EITP_ERROR_FORMAT, "the last 1 bytes belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, EITP_ERROR_FORMAT, "duplicate tensor 'a'"},
        {"{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, EITP_ERROR_FORMAT, "U+0000"},
        {"{\"__metadata__\":[]}", 0, EITP_ERROR_FORMAT, "\"__metadata__\" must be an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, EITP_ERROR_FORMAT, "'a' in \"__metadata__\" must be a string"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, EITP_ERROR_FORMAT, "duplicate \"__metadata__\""},
    };
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        put_header("wrong", cases[i].header, cases[i].data_size);
        eitp__safetensors *collection = open_file(in("wrong"), &error);
        CHECK_THAT(!collection, "accepted: %s", cases[i].header);
        if (!collection) {
            CHECK_THAT(error.status == cases[i].status, "%s: %s", cases[i].header, error.message);
            CHECK_THAT(strstr(error.message, cases[i].message), "%s: %s", cases[i].header, error.message);
            CHECK(strstr(error.message, "wrong"));
        }
        eitp__safetensors_close(collection);
    }
}

static void accepts_what_the_format_allows(void) {
    eitp_error error;
    float value = 0;
    put_header("right",
               "{ \"e\" :{\"data_offsets\":[4,4],\"shape\":[0],\"dtype\":\"F32\",\"more\":[{\"}\":\",\\\"\"}]} ,\n"
               "\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
               "\"n\\u00e9\":{\"dtype\":\"NOVEL\",\"shape\":[7],\"data_offsets\":[4,6]},\"__metadata__\":{}} \n\t ",
               6);
    eitp__safetensors *collection = open_file(in("right"), &error);
    CHECK_THAT(collection, "%s", error.message);
    REQUIRE(collection);
    CHECK(eitp__safetensors_count(collection) == 3);
    CHECK(read_f32(collection, "", &value));
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, "n\xc3\xa9");
    REQUIRE(entry);
    CHECK(!strcmp(entry->type, "NOVEL") && entry->element_size == 0 && entry->dtype == -1 && entry->size == 2);
    CHECK(eitp__safetensors_read(collection, entry, 0, 1, &value, NULL, &error) == EITP_ERROR_UNSUPPORTED);
    eitp__safetensors_close(collection);
    put_header("right", "{ }  ", 0);
    collection = open_file(in("right"), &error);
    REQUIRE(collection);
    CHECK(eitp__safetensors_count(collection) == 0 && !eitp__safetensors_find(collection, "a"));
    eitp__safetensors_close(collection);
}

static void refuses_other_files(void) {
    static const char pointer[] = "version 1\noid sha256:0123456789\nsize 548105171\n";
    static const unsigned char vast[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    static const unsigned char beyond[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    eitp_error error;
    put("other", pointer, sizeof pointer - 1);
    CHECK(!open_file(in("other"), &error));
    CHECK_THAT(strstr(error.message, "git lfs pull"), "%s", error.message);
    put("other", vast, sizeof vast);
    CHECK(!open_file(in("other"), &error) && error.status == EITP_ERROR_FORMAT);
    put("other", beyond, sizeof beyond);
    CHECK(!open_file(in("other"), &error) && error.status == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error.message, "10 bytes with a header of 3"), "%s", error.message);
    put("other", "", 0);
    CHECK(!open_file(in("other"), &error) && error.status == EITP_ERROR_FORMAT);
    CHECK(!open_file(in("missing"), &error) && error.status == EITP_ERROR_ARGUMENT);
}

/* A file that is truncated at any point, or has any header byte changed, is refused or still consistent, and never
   read out of bounds. */
static void damaged_files_are_survived(void) {
    static char bytes[4096];
    eitp_error error;
    FILE *file = fopen("tests/fuzz/corpus/safetensors/official.safetensors", "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0, refused = 0;
    REQUIRE(size > 600);
    fclose(file);
    for (size_t cut = 0; cut < size; cut++) {
        put("cut", bytes, cut);
        CHECK_THAT(!open_file(in("cut"), &error), "cut to %llu bytes", (unsigned long long)cut);
    }
    for (size_t i = 0; i < size - 84; i++) {
        bytes[i] = (char)(bytes[i] ^ 4);
        put("changed", bytes, size);
        bytes[i] = (char)(bytes[i] ^ 4);
        eitp__safetensors *collection = open_file(in("changed"), &error);
        refused += !collection;
        for (size_t k = 0; collection && k < eitp__safetensors_count(collection); k++) {
            const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, k);
            CHECK(entry->offset + entry->size <= size);
        }
        eitp__safetensors_close(collection);
    }
    CHECK_THAT(refused > (size - 84) / 2, "%llu", (unsigned long long)refused);
}

/* Memory is proportional to the size of the header, not the size of its tree. */
static void memory_is_proportional_to_the_header(void) {
    faults f;
    eitp__safetensors *collection = NULL;
    eitp__buffer bytes;
    eitp_error error;
    faults_begin(&f);
    eitp__buffer_init(&bytes, &f.real);
    eitp__buffer_add(&bytes, "\0\0\0\0\0\0\0\0{", 9);
    for (int i = 0; i < 20000; i++)
        eitp__buffer_format(&bytes, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "",
                            i);
    eitp__buffer_add_text(&bytes, "}");
    for (size_t i = 0; i < 8; i++)
        bytes.data[i] = (char)((uint64_t)(bytes.size - 8) >> (8 * i));
    put("many", bytes.data, bytes.size);
    REQUIRE_OK(eitp__safetensors_open(&f.host, in("many"), &collection, &error), error);
    CHECK(eitp__safetensors_count(collection) == 20000);
    for (int i = 0; i < 20000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        CHECK(eitp__safetensors_find(collection, name));
    }
    eitp__safetensors_close(collection);
    CHECK_THAT(f.peak_bytes < 8 * bytes.size, "%llu", (unsigned long long)f.peak_bytes);
    faults_end(&f);
    /* A member with too many values is refused before it is parsed. */
    eitp__buffer_clear(&bytes);
    eitp__buffer_add(&bytes, "\0\0\0\0\0\0\0\0{\"a\":[0", 15);
    for (int i = 0; i < 100000; i++)
        eitp__buffer_add_text(&bytes, ",0");
    eitp__buffer_add_text(&bytes, "]}");
    for (size_t i = 0; i < 8; i++)
        bytes.data[i] = (char)((uint64_t)(bytes.size - 8) >> (8 * i));
    put("many", bytes.data, bytes.size);
    faults_begin(&f);
    CHECK(eitp__safetensors_open(&f.host, in("many"), &collection, &error) == EITP_ERROR_FORMAT);
    CHECK_THAT(f.peak_bytes < 2 * bytes.size, "%llu", (unsigned long long)f.peak_bytes);
    faults_end(&f);
    eitp__buffer_release(&bytes);
}

enum { TENSORS = 7, LONG = 20000 };

static const eitp__safetensors_tensor tensors[TENSORS] = {
    {"bytes", EITP_U8, 1, {5, 0, 0, 0, 0, 0}},         {"h.0.w", EITP_BF16, 2, {100, 200, 0, 0, 0, 0}},
    {"scalar", EITP_F64, 0, {0, 0, 0, 0, 0, 0}},       {"w", EITP_F32, 3, {1, 3, 5, 0, 0, 0}},
    {"nothing", EITP_I32, 2, {0, 7, 0, 0, 0, 0}},      {"half", EITP_F16, 1, {LONG, 0, 0, 0, 0, 0}},
    {"\"\xc3\xa9\\", EITP_I64, 1, {2, 0, 0, 0, 0, 0}},
};
static const eitp__safetensors_text texts[] = {{"format", "pt"}, {"step", "12 \"of\" 100\n"}};

static float value_at(size_t i) {
    return (float)((int)(i * 7919 % 1000) - 500) / 37.0f;
}

/* Writes the tensors above, some in pieces. */
static eitp_status write_tensors(const eitp_host *host, const char *path, uint32_t crcs[TENSORS], eitp_error *error) {
    static float values[LONG];
    static const int64_t integers[] = {INT64_MIN, 42};
    eitp__safetensors_writer *writer = NULL;
    const double scalar = 0.1;
    eitp_status status;
    for (size_t i = 0; i < LONG; i++)
        values[i] = value_at(i);
    memset(crcs, 0, TENSORS * sizeof crcs[0]);
    status = eitp__safetensors_begin(host, path, tensors, TENSORS, texts, 2, NULL, &writer, error);
    if (status) {
        CHECK(!writer);
        return status;
    }
    status = eitp__safetensors_write_f32(writer, 1, values, 17, &crcs[1], error);
    if (!status)
        status = eitp__safetensors_write(writer, 0, "12", 2, &crcs[0], error);
    if (!status)
        status = eitp__safetensors_write_f32(writer, 1, values + 17, LONG - 17, &crcs[1], error);
    if (!status)
        status = eitp__safetensors_write(writer, 0, "345", 3, &crcs[0], error);
    if (!status)
        status = eitp__safetensors_write(writer, 2, &scalar, 1, &crcs[2], error);
    if (!status)
        status = eitp__safetensors_write_f32(writer, 3, values, 15, &crcs[3], error);
    if (!status)
        status = eitp__safetensors_write_f32(writer, 5, values, LONG, &crcs[5], error);
    if (!status)
        status = eitp__safetensors_write(writer, 6, integers, 2, &crcs[6], error);
    if (status) {
        eitp__safetensors_abandon(writer);
        return status;
    }
    return eitp__safetensors_finish(writer, NULL, error);
}

/* Reads the tensors back and compares them. */
static eitp_status read_tensors(const eitp_host *host, const char *path, const uint32_t crcs[TENSORS],
                                eitp_error *error) {
    static float values[LONG];
    unsigned char raw[16 * 8];
    eitp__safetensors *collection = NULL;
    eitp_status status = eitp__safetensors_open(host, path, &collection, error);
    if (status) {
        CHECK(!collection);
        return status;
    }
    CHECK(eitp__safetensors_count(collection) == TENSORS);
    CHECK(!strcmp(eitp__safetensors_metadata(collection, "step"), "12 \"of\" 100\n"));
    for (size_t i = 0; i < TENSORS && !status; i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, tensors[i].name);
        uint32_t crc = 0;
        CHECK(entry && entry->dtype == (int)tensors[i].dtype && entry->rank == tensors[i].rank);
        if (!entry)
            continue;
        CHECK(!memcmp(entry->shape, tensors[i].shape, sizeof entry->shape));
        CHECK(entry->offset % entry->element_size == 0);
        if (entry->count > 16)
            status = eitp__safetensors_read_f32(collection, entry, 0, entry->count, values, &crc, error);
        else
            status = eitp__safetensors_read(collection, entry, 0, entry->count, raw, &crc, error);
        CHECK(status || crc == crcs[i]);
        for (int64_t k = 0; !status && entry->count > 16 && k < entry->count; k++) {
            float exact = value_at((size_t)k);
            float expected = entry->dtype == EITP_F16 ? eitp__f16_to_f32(eitp__f32_to_f16(exact))
                                                      : eitp__bf16_to_f32(eitp__f32_to_bf16(exact));
            CHECK(values[k] == expected);
        }
    }
    if (!status)
        status = eitp__safetensors_read(collection, eitp__safetensors_find(collection, "w"), 0, 15, raw, NULL, error);
    for (size_t k = 0; !status && k < 15; k++) {
        float expected = value_at(k);
        CHECK(!memcmp(raw + 4 * k, &expected, 4));
    }
    if (!status)
        status =
            eitp__safetensors_read(collection, eitp__safetensors_find(collection, "bytes"), 1, 3, raw, NULL, error);
    CHECK(status || !memcmp(raw, "234", 3));
    eitp__safetensors_close(collection);
    return status;
}

static void written_files_read_back(void) {
    uint32_t crcs[TENSORS];
    faults f;
    eitp_error error;
    uint64_t header = 0;
    for (size_t largest = 0; largest < 2; largest++) {
        faults_begin(&f);
        f.largest_transfer = largest * 1000;
        REQUIRE_OK(write_tensors(&f.host, in("model.safetensors"), crcs, &error), error);
        CHECK(f.peak_bytes < 8192);
        REQUIRE_OK(read_tensors(&f.host, in("model.safetensors"), crcs, &error), error);
        faults_end(&f);
        CHECK(!is_there("model.safetensors.tmp"));
    }
    CHECK(crcs[0] == eitp__crc32c(0, "12345", 5) && crcs[4] == 0);
    FILE *file = fopen(in("model.safetensors"), "rb");
    CHECK(file && fread(&header, 1, 8, file) == 8);
    if (file)
        fclose(file);
    CHECK(header % 64 == 56);
}

static void an_empty_file_can_be_written(void) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors_writer *writer = NULL;
    eitp_error error;
    REQUIRE_OK(eitp__safetensors_begin(&host, in("none"), NULL, 0, NULL, 0, NULL, &writer, &error), error);
    REQUIRE_OK(eitp__safetensors_finish(writer, NULL, &error), error);
    eitp__safetensors *collection = open_file(in("none"), &error);
    CHECK(collection && eitp__safetensors_count(collection) == 0 && !eitp__safetensors_metadata(collection, "a"));
    eitp__safetensors_close(collection);
}

static void invalid_tensors_are_refused(void) {
    static const struct {
        eitp__safetensors_tensor tensor;
        const char *message;
    } cases[] = {
        {{"__metadata__", EITP_F32, 0, {0, 0, 0, 0, 0, 0}}, "invalid tensor name '__metadata__'"},
        {{"\xff", EITP_F32, 0, {0, 0, 0, 0, 0, 0}}, "invalid tensor name"},
        {{"a", (eitp_dtype)99, 0, {0, 0, 0, 0, 0, 0}}, "invalid dtype or rank"},
        {{"a", EITP_F32, 7, {1, 1, 1, 1, 1, 1}}, "invalid dtype or rank"},
        {{"a", EITP_F32, -1, {1, 1, 1, 1, 1, 1}}, "invalid dtype or rank"},
        {{"a", EITP_F32, 1, {-1, 0, 0, 0, 0, 0}}, "a negative size"},
        {{"a", EITP_F32, 2, {INT64_MAX, 2, 0, 0, 0, 0}}, "too large"},
        {{"a", EITP_F32, 1, {INT64_MAX, 0, 0, 0, 0, 0}}, "too large"},
        {{"b", EITP_F32, 1, {1, 0, 0, 0, 0, 0}}, "duplicate tensor name 'b'"},
        {{"a", EITP_U8, 1, {INT64_MAX, 0, 0, 0, 0, 0}}, "too large for one file"},
    };
    const eitp_host host = eitp_host_default();
    eitp__safetensors_writer *writer = NULL;
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp__safetensors_tensor pair[2] = {cases[i].tensor, {"b", EITP_F32, 1, {1, 0, 0, 0, 0, 0}}};
        CHECK(eitp__safetensors_begin(&host, in("refused"), pair, 2, NULL, 0, NULL, &writer, &error) ==
              EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error.message, cases[i].message), "%s", error.message);
        CHECK(!writer && !is_there("refused") && !is_there("refused.tmp"));
    }
}

static void a_file_must_be_complete(void) {
    static const eitp__safetensors_tensor two[] = {{"a", EITP_I32, 1, {2, 0, 0, 0, 0, 0}},
                                                   {"b", EITP_F32, 1, {2, 0, 0, 0, 0, 0}}};
    static const float values[] = {1, 2, 3};
    const eitp_host host = eitp_host_default();
    eitp__safetensors_writer *writer = NULL;
    eitp_error error;
    put("whole", "old", 3);
    REQUIRE_OK(eitp__safetensors_begin(&host, in("whole"), two, 2, NULL, 0, NULL, &writer, &error), error);
    CHECK(eitp__safetensors_write(writer, 2, values, 1, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__safetensors_write(writer, 1, values, 3, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__safetensors_write(writer, 1, values, -1, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__safetensors_write_f32(writer, 0, values, 1, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "dtype i32"), "%s", error.message);
    REQUIRE_OK(eitp__safetensors_write(writer, 0, values, 2, NULL, &error), error);
    REQUIRE_OK(eitp__safetensors_write(writer, 1, values, 1, NULL, &error), error);
    CHECK(eitp__safetensors_write(writer, 1, values, 2, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "cannot write 2 elements of tensor 'b': 1 of 2 are written"), "%s", error.message);
    CHECK(eitp__safetensors_finish(writer, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "is incomplete: 1 of 2 elements of tensor 'b' are written"), "%s", error.message);
    CHECK(!is_there("whole.tmp"));
    REQUIRE_OK(eitp__safetensors_begin(&host, in("whole"), two, 2, NULL, 0, NULL, &writer, &error), error);
    eitp__safetensors_abandon(writer);
    eitp__safetensors_abandon(NULL);
    CHECK(!is_there("whole.tmp"));
    FILE *file = fopen(in("whole"), "rb");
    char text[8] = "";
    CHECK(file && fread(text, 1, sizeof text, file) == 3 && !memcmp(text, "old", 3));
    if (file)
        fclose(file);
}

static void writing_fails_cleanly(void) {
    uint32_t crcs[TENSORS];
    faults f;
    eitp_error error;
    size_t old_size, failures[2] = {0, 0};
    static char old[100000], now[100000];
    eitp_host host = eitp_host_default();
    REQUIRE_OK(write_tensors(&host, in("kept"), crcs, &error), error);
    FILE *file = fopen(in("kept"), "rb");
    REQUIRE(file);
    old_size = fread(old, 1, sizeof old, file);
    fclose(file);
    old[old_size - 1] = (char)(old[old_size - 1] ^ 1); /* makes the new file differ */
    for (int kind = 0; kind < 4; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            put("kept", old, old_size);
            faults_begin(&f);
            f.code = ENOSPC;
            f.tear = 1;
            f.fail_allocation = kind == 0 ? n : 0;
            f.fail_file_call = kind == 0 ? 0 : n;
            f.all_file_calls = kind == 2;
            f.largest_transfer = kind == 3 ? 10000 : 0;
            eitp_status status = write_tensors(&f.host, in("kept"), crcs, &error);
            more = faults_end(&f);
            CHECK_THAT(status == EITP_OK || status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%s", error.message);
            file = fopen(in("kept"), "rb");
            REQUIRE(file);
            size_t size = fread(now, 1, sizeof now, file);
            int is_old = size == old_size && !memcmp(now, old, size);
            fclose(file);
            /* Only the directory sync comes after the rename. */
            CHECK(is_old == (status != EITP_OK && !(f.failed_call && !strcmp(f.failed_call, "sync_directory"))));
            CHECK(kind == 2 || !is_there("kept.tmp"));
            if (!is_old)
                CHECK(read_tensors(&host, in("kept"), crcs, &error) == EITP_OK);
            failures[kind != 0] += status != EITP_OK;
        }
    }
    CHECK_THAT(failures[0] > 8 && failures[1] > 40, "%d %d", (int)failures[0], (int)failures[1]);
}

/* A file read by two threads, with each of their reads failing once. */
static void large_tensors_are_read_in_halves(void) {
    enum { LARGE = 17 << 20, FIRST = 12345, FAILURES = 60 };
    const eitp__safetensors_tensor tensor = {"large", EITP_F32, 1, {LARGE, 0, 0, 0, 0, 0}};
    const eitp_host host = eitp_host_default();
    eitp__safetensors_writer *writer = NULL;
    eitp__safetensors *collection = NULL;
    float *values = (float *)malloc((size_t)LARGE * sizeof *values), *found;
    uint32_t written = 0, read = 0;
    eitp_error error;
    faults f;
    found = values ? (float *)malloc((size_t)LARGE * sizeof *found) : NULL;
    REQUIRE(found);
    for (int64_t i = 0; i < LARGE; i++)
        values[i] = value_at((size_t)i);
    REQUIRE_OK(eitp__safetensors_begin(&host, in("large"), &tensor, 1, NULL, 0, NULL, &writer, &error), error);
    REQUIRE_OK(eitp__safetensors_write(writer, 0, values, LARGE, &written, &error), error);
    REQUIRE_OK(eitp__safetensors_finish(writer, NULL, &error), error);
    REQUIRE_OK(eitp__safetensors_open(&host, in("large"), &collection, &error), error);
    REQUIRE_OK(eitp__safetensors_read(collection, eitp__safetensors_at(collection, 0), 0, FIRST, found, &read, &error),
               error);
    REQUIRE_OK(eitp__safetensors_read(collection, eitp__safetensors_at(collection, 0), FIRST, LARGE - FIRST,
                                      found + FIRST, &read, &error),
               error);
    CHECK(read == written && !memcmp(found, values, (size_t)LARGE * sizeof *values));
    eitp__safetensors_close(collection);
    for (int n = 1; n <= FAILURES; n++) {
        eitp_status status;
        faults_begin(&f);
        REQUIRE_OK(eitp__safetensors_open(&f.host, in("large"), &collection, &error), error);
        faults_fail_file_call(&f, n);
        f.code = EBADF; /* is not retried */
        status = eitp__safetensors_read(collection, eitp__safetensors_at(collection, 0), 0, (int64_t)4 << 20, found,
                                        &read, &error);
        eitp__safetensors_close(collection);
        CHECK_THAT(status == (f.failures && strcmp(f.failed_call, "close") ? EITP_ERROR_IO : EITP_OK), "call %d", n);
        faults_end(&f);
    }
    free(values);
    free(found);
}

static void reading_fails_cleanly(void) {
    uint32_t crcs[TENSORS];
    faults f;
    eitp_error error;
    int failures = 0;
    const eitp_host host = eitp_host_default();
    REQUIRE_OK(write_tensors(&host, in("model"), crcs, &error), error);
    for (int kind = 0; kind < 3; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            faults_begin(&f);
            f.fail_allocation = kind == 0 ? n : 0;
            f.fail_file_call = kind == 0 ? 0 : n;
            f.all_file_calls = kind == 2;
            eitp_status status = read_tensors(&f.host, in("model"), crcs, &error);
            more = faults_end(&f);
            /* A failing close after reading is harmless. */
            if (more && !(f.failed_call && !strcmp(f.failed_call, "close")))
                CHECK_THAT(status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%s", error.message);
            else
                CHECK_THAT(status == EITP_OK, "%s", error.message);
            failures += status != EITP_OK;
        }
    }
    CHECK_THAT(failures > 40, "%d", failures);
}

static const char index_text[] = "{\"metadata\": {\"total_size\": 40},\n \"weight_map\": {\"b\": \"two.safetensors\",\n"
                                 " \"a\": \"one.safetensors\", \"c\": \"one.safetensors\"}}";

static void put_parts(void) {
    put_header("one.safetensors",
               "{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
               "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
               "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
               5);
    put_header("two.safetensors",
               "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
               3);
}

static void an_index_joins_files(void) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    eitp_error error;
    unsigned char bytes[4];
    put_parts();
    put("model.safetensors.index.json", index_text, sizeof index_text - 1);
    REQUIRE_OK(eitp__safetensors_open_index(&host, in("model.safetensors.index.json"), &collection, &error), error);
    CHECK(eitp__safetensors_count(collection) == 3);
    const eitp__safetensors_entry *b = eitp__safetensors_find(collection, "b");
    const eitp__safetensors_entry *c = eitp__safetensors_find(collection, "c");
    REQUIRE(eitp__safetensors_find(collection, "a") && b && c);
    CHECK(b->count == 3 && strstr(eitp__safetensors_path(collection, b), "/two.safetensors"));
    CHECK(strstr(eitp__safetensors_path(collection, c), "/one.safetensors"));
    CHECK(!eitp__safetensors_read(collection, b, 1, 2, bytes, NULL, &error) && bytes[0] == 1 && bytes[1] == 2);
    CHECK(!eitp__safetensors_read(collection, c, 0, 2, bytes, NULL, &error) && bytes[0] == 2 && bytes[1] == 3);
    CHECK(!strcmp(eitp__safetensors_metadata(collection, "format"), "pt"));
    eitp__safetensors_close(collection);
}

static void an_invalid_index_is_refused(void) {
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[]", "missing object \"weight_map\""},
        {"{\"weight_map\":[]}", "missing object \"weight_map\""},
        {"{\"weight_map\":{\"a\":1}}", "'a' must be the name of a file in the same directory"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "a file in the same directory"},
        {"{\"weight_map\":{\"a\":\"/one.safetensors\"}}", "a file in the same directory"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "a file in the same directory"},
        {"{\"weight_map\":{\"a\":\"\"}}", "a file in the same directory"},
        {"{\"weight_map\":{\"a\":\"x\\u0000\"}}", "a file in the same directory"},
        {"{\"weight_map\":{\"a\\u0000\":\"x\"}}", "U+0000"},
        {"{\"weight_map\":{\"d\":\"one.safetensors\"}}", "tensor 'd' is missing in 'one.safetensors'"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"aa\":\"one.safetensors\"}}", "tensor 'aa' is missing in"},
        {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", "no such file"},
        {"{\"weight_map\":{\"a\":\"index\"}}", "is not a safetensors file"},
        {"{\"weight_map\":", "invalid JSON"},
    };
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    eitp_error error;
    put_parts();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        put("index", cases[i].text, strlen(cases[i].text));
        CHECK(eitp__safetensors_open_index(&host, in("index"), &collection, &error) != EITP_OK && !collection);
        CHECK_THAT(strstr(error.message, cases[i].message), "%s", error.message);
        CHECK(strstr(error.message, "index"));
    }
    put("index", "{\"weight_map\":{}}", 17);
    CHECK(eitp__safetensors_open_index(&host, in("index"), &collection, &error) == EITP_OK);
    CHECK(collection && eitp__safetensors_count(collection) == 0);
    eitp__safetensors_close(collection);
}

static void opening_an_index_fails_cleanly(void) {
    faults f;
    eitp_error error;
    int failures = 0;
    put_parts();
    put("index", index_text, sizeof index_text - 1);
    for (int kind = 0; kind < 3; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            eitp__safetensors *collection = NULL;
            faults_begin(&f);
            f.fail_allocation = kind == 0 ? n : 0;
            f.fail_file_call = kind == 0 ? 0 : n;
            f.all_file_calls = kind == 2;
            eitp_status status = eitp__safetensors_open_index(&f.host, in("index"), &collection, &error);
            CHECK_THAT(status == EITP_OK || status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%s", error.message);
            CHECK((status == EITP_OK) == (collection != NULL));
            eitp__safetensors_close(collection);
            more = faults_end(&f);
            failures += status != EITP_OK;
        }
    }
    CHECK_THAT(failures > 30, "%d", failures);
}

/* Every low half with all kinds of signs and exponents: the planes are exact, and the upper one is the nearest
   value. */
static void planes_restore_every_weight(void) {
    static const uint16_t halves[] = {0x0000, 0x0001, 0x007f, 0x0080, 0x3f80, 0x3f81, 0x7f7e, 0x8000, 0xbf7f, 0xff7e};
    for (size_t h = 0; h < EITP__COUNT(halves); h++) {
        static float values[1 << 16], upper[1 << 16], lower[1 << 16];
        size_t different = 0, far_off = 0;
        for (uint32_t i = 0; i < 1 << 16; i++)
            upper[i] = lower[i] = values[i] = eitp__float_of_bits((uint32_t)halves[h] << 16 | i);
        eitp__keep_upper_plane(upper, 1 << 16);
        eitp__keep_lower_plane(lower, 1 << 16);
        for (size_t i = 0; i < 1 << 16; i++) {
            const float nearest = eitp__bf16_to_f32(eitp__f32_to_bf16(values[i]));
            far_off += fabsf(upper[i] - values[i]) > fabsf(nearest - values[i]);
        }
        eitp__join_planes(upper, (const int16_t *)(const void *)lower, 1 << 16);
        for (size_t i = 0; i < 1 << 16; i++)
            different += eitp__bits_of_float(upper[i]) != eitp__bits_of_float(values[i]);
        CHECK_THAT(!different && !far_off, "%04x: %zu and %zu", halves[h], different, far_off);
    }
    CHECK(eitp__is_in_range(EITP_F16, 65519.996f) && !eitp__is_in_range(EITP_F16, -65520.0f));
    CHECK(eitp__is_in_range(EITP_BF16, eitp__float_of_bits(0x7f7f7fff)) &&
          !eitp__is_in_range(EITP_BF16, eitp__float_of_bits(0xff7f8000)));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(reads_what_the_official_library_writes),
        TEST(planes_restore_every_weight),
        TEST(ranges_are_checked),
        TEST(refuses_invalid_headers),
        TEST(accepts_what_the_format_allows),
        TEST(refuses_other_files),
        TEST(damaged_files_are_survived),
        TEST(memory_is_proportional_to_the_header),
        TEST(written_files_read_back),
        TEST(an_empty_file_can_be_written),
        TEST(invalid_tensors_are_refused),
        TEST(a_file_must_be_complete),
        TEST(writing_fails_cleanly),
        TEST(large_tensors_are_read_in_halves),
        TEST(reading_fails_cleanly),
        TEST(an_index_joins_files),
        TEST(an_invalid_index_is_refused),
        TEST(opening_an_index_fails_cleanly),
    };
    int failed;
    if (!scratch_make(directory)) {
        printf("cannot make a directory for the test's files\n");
        return 1;
    }
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return failed;
}

/* GGUF files: values of every kind, tensors, several files of a model, and files that are broken or hostile. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/one_file.h"

enum { MOST_BYTES = 1 << 21 };

static char directory[512];
static eitp_error error_;

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

static eitp_status open_on(const eitp_host *host, const char *path, eitp__gguf *gguf) {
    memset(&error_, 0, sizeof error_);
    return eitp__gguf_open(host, path, gguf, &error_);
}

static eitp_status open_file(const char *path, eitp__gguf *gguf) {
    const eitp_host host = eitp_host_default();
    return open_on(&host, path, gguf);
}

/* Reads a file. Returns its size, 0 if it fails. */
static size_t read_bytes(const char *path, unsigned char bytes[MOST_BYTES]) {
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, MOST_BYTES, file) : 0;
    if (file)
        fclose(file);
    return size;
}

/* Memory in proportion to a file: the header, and the lists of keys and tensors while they grow. */
static size_t most_memory(size_t file_size) {
    return 12 * file_size + 8192;
}

/* Opens bytes as a file, with bounded memory. Only a failure has a message, which names the file. */
static eitp_status open_bytes(const void *bytes, size_t size) {
    one_file one = {bytes, size};
    const eitp_host memory = one_file_host(&one);
    eitp__gguf gguf;
    eitp_status status;
    faults f;
    faults_begin_on(&f, &memory);
    status = open_on(&f.host, "some/model.gguf", &gguf);
    eitp__gguf_close(&gguf);
    CHECK_THAT(f.peak_bytes <= most_memory(size), "%zu bytes of memory for a file of %zu", f.peak_bytes, size);
    CHECK_THAT(!status || strstr(error_.message, "some/model.gguf"), "%s", error_.message);
    faults_end(&f);
    return status;
}

/* ---- Values ---- */

static void add_f32(gguf_writer *writer, const char *name, int64_t size, const void *values) {
    gguf_add_tensor(writer, name, 0, &size, 1, values, (size_t)size * 4);
}

typedef struct integer_case {
    const char *key;
    eitp__gguf_kind kind;
    int64_t value;
} integer_case;

static const integer_case integers[] = {
    {"u8", EITP__GGUF_U8, 255},         {"i8", EITP__GGUF_I8, -128},         {"u16", EITP__GGUF_U16, 65535},
    {"i16", EITP__GGUF_I16, -32768},    {"u32", EITP__GGUF_U32, UINT32_MAX}, {"i32", EITP__GGUF_I32, INT32_MIN},
    {"u64", EITP__GGUF_U64, INT64_MAX}, {"i64", EITP__GGUF_I64, INT64_MIN},  {"i64 max", EITP__GGUF_I64, INT64_MAX},
    {"i8 max", EITP__GGUF_I8, 127},     {"zero", EITP__GGUF_U32, 0},
};

/* A file with a value of every kind, and arrays. */
static int write_values(const char *path) {
    static const char *const texts[] = {"", "one", "two\xC3\xA4"};
    static const int64_t numbers[] = {-1, 0, 300};
    static const double reals[] = {0.5, -2.25};
    gguf_writer writer;
    gguf_start(&writer);
    for (size_t i = 0; i < EITP__COUNT(integers); i++)
        gguf_add_integer(&writer, integers[i].key, integers[i].kind, integers[i].value);
    gguf_add_integer(&writer, "u64 large", EITP__GGUF_U64, INT64_MIN);
    gguf_add_integer(&writer, "u64 max", EITP__GGUF_U64, -1);
    gguf_add_real(&writer, "f32", EITP__GGUF_F32, 0.1);
    gguf_add_real(&writer, "f64", EITP__GGUF_F64, 0.1);
    gguf_add_real(&writer, "nan", EITP__GGUF_F32, (double)NAN);
    gguf_add_real(&writer, "infinite", EITP__GGUF_F64, (double)INFINITY);
    gguf_add_flag(&writer, "false", 0);
    gguf_add_flag(&writer, "true", 1);
    gguf_add_flag(&writer, "two", 2);
    gguf_add_key(&writer, "text", EITP__GGUF_STRING);
    gguf_put_text(&writer.keys, "a\0b", 3);
    gguf_add_text(&writer, "no text", "");
    gguf_add_texts(&writer, "strings", texts, EITP__COUNT(texts));
    gguf_add_integers(&writer, "i16s", EITP__GGUF_I16, numbers, EITP__COUNT(numbers));
    gguf_add_reals(&writer, "f64s", EITP__GGUF_F64, reals, EITP__COUNT(reals));
    gguf_add_array(&writer, "none", EITP__GGUF_STRING, 0);
    return gguf_finish(&writer, path);
}

static int open_values(eitp__gguf *gguf) {
    return write_values(in("values")) && !open_file(in("values"), gguf);
}

static void integers_of_every_kind_are_read(void) {
    eitp__gguf gguf;
    REQUIRE(open_values(&gguf));
    for (size_t i = 0; i < EITP__COUNT(integers); i++) {
        const integer_case *c = &integers[i];
        int64_t value = 42;
        CHECK_THAT(!eitp__gguf_get_integer(&gguf, c->key, c->value, c->value, &value, &error_) && value == c->value,
                   "%s: %lld", c->key, (long long)value);
        CHECK(!eitp__gguf_get_integer(&gguf, c->key, INT64_MIN, INT64_MAX, &value, &error_) && value == c->value);
        value = 42;
        if (c->value > INT64_MIN)
            CHECK(eitp__gguf_get_integer(&gguf, c->key, INT64_MIN, c->value - 1, &value, &error_) == EITP_ERROR_FORMAT);
        if (c->value < INT64_MAX)
            CHECK(eitp__gguf_get_integer(&gguf, c->key, c->value + 1, INT64_MAX, &value, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(value == 42 && strstr(error_.message, c->key), "%s", error_.message);
    }
    eitp__gguf_close(&gguf);
}

/* A value of 64 bits that an int64_t cannot hold is outside all limits. */
static void larger_integers_are_refused(void) {
    static const char *const keys[] = {"u64 large", "u64 max"};
    static const char *const numbers[] = {"9223372036854775808", "18446744073709551615"};
    eitp__gguf gguf;
    REQUIRE(open_values(&gguf));
    for (int i = 0; i < 2; i++) {
        int64_t value = 42;
        CHECK(eitp__gguf_get_integer(&gguf, keys[i], INT64_MIN, INT64_MAX, &value, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(value == 42 && strstr(error_.message, keys[i]) && strstr(error_.message, numbers[i]), "%s",
                   error_.message);
    }
    eitp__gguf_close(&gguf);
}

static void check_number(const eitp__gguf *gguf, const char *key, double expected) {
    double value = 42;
    CHECK_THAT(!eitp__gguf_get_number(gguf, key, -1e30, 1e30, &value, &error_) && !(value < expected) &&
                   !(value > expected),
               "%s: %g", key, value);
}

static void numbers_are_read(void) {
    static const char *const refused[] = {"nan", "infinite", "true", "text", "i16s"};
    eitp__gguf gguf;
    double value = 42;
    REQUIRE(open_values(&gguf));
    check_number(&gguf, "f32", (double)0.1f);
    check_number(&gguf, "f64", 0.1);
    check_number(&gguf, "i32", INT32_MIN);
    check_number(&gguf, "u8", 255);
    check_number(&gguf, "u64 max", 18446744073709551615.0);
    check_number(&gguf, "i64", -9223372036854775808.0);
    CHECK(eitp__gguf_get_number(&gguf, "f64", 0.2, 1, &value, &error_) == EITP_ERROR_FORMAT);
    CHECK(eitp__gguf_get_number(&gguf, "f64", 0, 0.05, &value, &error_) == EITP_ERROR_FORMAT);
    for (size_t i = 0; i < EITP__COUNT(refused); i++) {
        CHECK(eitp__gguf_get_number(&gguf, refused[i], -1e30, 1e30, &value, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, refused[i]), "%s", error_.message);
    }
    CHECK(value > 41 && value < 43);
    eitp__gguf_close(&gguf);
}

static void flags_and_texts_are_read(void) {
    eitp__gguf gguf;
    eitp__gguf_text text = {"kept", 4};
    int flag = 42;
    REQUIRE(open_values(&gguf));
    CHECK(!eitp__gguf_get_flag(&gguf, "false", &flag, &error_) && flag == 0);
    CHECK(!eitp__gguf_get_flag(&gguf, "true", &flag, &error_) && flag == 1);
    flag = 42;
    CHECK(eitp__gguf_get_flag(&gguf, "two", &flag, &error_) == EITP_ERROR_FORMAT && strstr(error_.message, "'two'"));
    CHECK(eitp__gguf_get_flag(&gguf, "u8", &flag, &error_) == EITP_ERROR_FORMAT && strstr(error_.message, "'u8'"));
    CHECK(eitp__gguf_get_flag(&gguf, "strings", &flag, &error_) == EITP_ERROR_FORMAT && flag == 42);
    CHECK(eitp__gguf_get_text(&gguf, "u8", &text, &error_) == EITP_ERROR_FORMAT && strstr(error_.message, "'u8'"));
    CHECK(eitp__gguf_get_text(&gguf, "strings", &text, &error_) == EITP_ERROR_FORMAT &&
          eitp__gguf_text_is(text, "kept"));
    CHECK(!eitp__gguf_get_text(&gguf, "text", &text, &error_) && text.size == 3 && !memcmp(text.data, "a\0b", 3));
    CHECK(!eitp__gguf_get_text(&gguf, "no text", &text, &error_) && text.size == 0);
    eitp__gguf_close(&gguf);
}

static void arrays_are_read(void) {
    static const char *const expected[] = {"", "one", "two\xC3\xA4"};
    const eitp__gguf_value *value;
    const unsigned char *at;
    eitp__gguf gguf;
    REQUIRE(open_values(&gguf));
    REQUIRE(!eitp__gguf_get_array(&gguf, "strings", 1, &value, &error_) && value && value->count == 3);
    at = value->at;
    for (int i = 0; i < 3; i++)
        CHECK(eitp__gguf_text_is(eitp__gguf_next_text(&at), expected[i]));
    REQUIRE(!eitp__gguf_get_array(&gguf, "i16s", 0, &value, &error_) && value && value->count == 3);
    CHECK(eitp__gguf_integer_at(value, 0) == -1 && eitp__gguf_integer_at(value, 2) == 300);
    CHECK(eitp__gguf_number_at(value, 0) < 0 && eitp__gguf_number_at(value, 2) > 299);
    REQUIRE(!eitp__gguf_get_array(&gguf, "f64s", 0, &value, &error_) && value && value->count == 2);
    CHECK(eitp__gguf_number_at(value, 1) < -2.2 && eitp__gguf_number_at(value, 1) > -2.3);
    REQUIRE(!eitp__gguf_get_array(&gguf, "none", 1, &value, &error_) && value && value->count == 0);
    CHECK(eitp__gguf_get_array(&gguf, "strings", 0, &value, &error_) == EITP_ERROR_FORMAT &&
          strstr(error_.message, "'strings' must be an array of numbers"));
    CHECK(eitp__gguf_get_array(&gguf, "i16s", 1, &value, &error_) == EITP_ERROR_FORMAT &&
          strstr(error_.message, "'i16s' must be an array of strings"));
    CHECK(eitp__gguf_get_array(&gguf, "text", 1, &value, &error_) == EITP_ERROR_FORMAT);
    eitp__gguf_close(&gguf);
}

static void missing_keys_change_nothing(void) {
    const eitp__gguf_value *array;
    eitp__gguf gguf;
    eitp__gguf_text text = {"kept", 4};
    int64_t integer = 42;
    double number = 42;
    int flag = 42;
    REQUIRE(open_values(&gguf));
    CHECK(!eitp__gguf_find(&gguf, "u") && !eitp__gguf_find(&gguf, "u88") && !eitp__gguf_find(&gguf, ""));
    CHECK(!eitp__gguf_get_integer(&gguf, "no", 0, 1, &integer, &error_) && integer == 42);
    CHECK(!eitp__gguf_get_number(&gguf, "no", 0, 1, &number, &error_) && number > 41);
    CHECK(!eitp__gguf_get_flag(&gguf, "no", &flag, &error_) && flag == 42);
    CHECK(!eitp__gguf_get_text(&gguf, "no", &text, &error_) && eitp__gguf_text_is(text, "kept"));
    CHECK(!eitp__gguf_get_array(&gguf, "no", 1, &array, &error_) && !array);
    eitp__gguf_close(&gguf);
}

static void integers_of_other_kinds_are_refused(void) {
    static const char *const keys[] = {"f32", "true", "text", "i16s", "strings"};
    eitp__gguf gguf;
    int64_t value = 42;
    REQUIRE(open_values(&gguf));
    for (size_t i = 0; i < EITP__COUNT(keys); i++) {
        CHECK(eitp__gguf_get_integer(&gguf, keys[i], INT64_MIN, INT64_MAX, &value, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, keys[i]) && strstr(error_.message, "must be an integer"), "%s",
                   error_.message);
    }
    CHECK(value == 42);
    eitp__gguf_close(&gguf);
}

/* ---- Tensors ---- */

/* Blocks of Q8_0 with scale 0.5: element i is half of i % 200 - 100. */
static void put_blocks(unsigned char *bytes, int64_t blocks) {
    for (int64_t b = 0; b < blocks; b++) {
        bytes[34 * b] = 0;
        bytes[34 * b + 1] = 0x38;
        for (int64_t i = 0; i < 32; i++)
            bytes[34 * b + 2 + i] = (unsigned char)((32 * b + i) % 200 - 100);
    }
}

static void elements_are_read_in_any_range(void) {
    enum { BLOCKS = 1000, COUNT = 32 * BLOCKS };
    static unsigned char bytes[34 * BLOCKS];
    static float values[COUNT];
    static const int64_t ranges[][2] = {{0, COUNT}, {0, 1}, {31, 2}, {33, 0}, {15391, 2}, {15392, 33}, {COUNT - 1, 1}};
    const int64_t shape[2] = {10, COUNT / 10};
    const eitp_host host = eitp_host_default();
    const eitp__gguf_tensor *tensor;
    eitp__file file = EITP__ZERO;
    eitp__gguf gguf;
    gguf_writer writer;
    put_blocks(bytes, BLOCKS);
    gguf_start(&writer);
    add_f32(&writer, "first", 3, values);
    gguf_add_tensor(&writer, "blocks", 8, shape, 2, bytes, sizeof bytes);
    REQUIRE(gguf_finish(&writer, in("blocks")));
    REQUIRE_OK(open_file(in("blocks"), &gguf), error_);
    tensor = eitp__gguf_find_tensor(&gguf, "blocks");
    REQUIRE(tensor && tensor->rank == 2 && tensor->shape[0] == 10 && tensor->shape[1] == 3200 &&
            tensor->count == COUNT);
    CHECK(tensor->size == sizeof bytes && tensor->offset % 32 == 0 && !strcmp(tensor->type->name, "Q8_0"));
    CHECK(!eitp__gguf_find_tensor(&gguf, "block") && !eitp__gguf_find_tensor(&gguf, "blocks2"));
    REQUIRE_OK(eitp__file_open(&file, &host, in("blocks"), EITP_FILE_READ, &error_), error_);
    for (size_t r = 0; r < EITP__COUNT(ranges); r++) {
        values[ranges[r][1] < COUNT ? ranges[r][1] : 0] = 77;
        REQUIRE_OK(
            eitp__gguf_read_elements(&file, tensor->type, tensor->offset, ranges[r][0], ranges[r][1], values, &error_),
            error_);
        for (int64_t i = 0; i < ranges[r][1]; i++) {
            const float expected = 0.5f * (float)((ranges[r][0] + i) % 200 - 100);
            REQUIRE(!(values[i] < expected) && !(values[i] > expected));
        }
        CHECK(ranges[r][1] == COUNT || values[ranges[r][1]] > 76);
    }
    eitp__file_close(&file, NULL);
    eitp__gguf_close(&gguf);
}

/* Scalars, empty tensors, types known by name only, and an alignment. */
static void unusual_files_are_read(void) {
    static const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t four[4] = {1, 2, 1, 2}, empty[2] = {0, 5}, blocks[1] = {256};
    static const unsigned char unknown[66];
    const eitp__gguf_tensor *tensor;
    char longest[256];
    float read[4] = {0};
    eitp__gguf gguf;
    gguf_writer writer;
    memset(longest, 'n', 255);
    longest[255] = 0;
    gguf_start(&writer);
    writer.version = 2;
    writer.alignment = 8;
    gguf_add_integer(&writer, "general.alignment", EITP__GGUF_U32, 8);
    gguf_add_tensor(&writer, "scalar", 0, NULL, 0, values, 4);
    gguf_add_tensor(&writer, "four", 0, four, 4, values, 16);
    gguf_add_tensor(&writer, "empty", 0, empty, 2, values, 0);
    gguf_add_tensor(&writer, longest, 16, blocks, 1, unknown, sizeof unknown);
    REQUIRE(gguf_finish(&writer, in("unusual")));
    REQUIRE_OK(open_file(in("unusual"), &gguf), error_);
    tensor = eitp__gguf_find_tensor(&gguf, "scalar");
    CHECK(tensor && tensor->rank == 0 && tensor->count == 1 && tensor->size == 4 && tensor->offset % 8 == 0);
    tensor = eitp__gguf_find_tensor(&gguf, "four");
    REQUIRE(tensor && tensor->rank == 4 && tensor->shape[1] == 2 && tensor->shape[3] == 2 && tensor->shape[2] == 1);
    CHECK(!eitp__gguf_read_f32(&gguf, tensor, read, &error_) && !memcmp(read, values, sizeof read));
    tensor = eitp__gguf_find_tensor(&gguf, "empty");
    CHECK(tensor && tensor->count == 0 && tensor->size == 0 && !eitp__gguf_read_f32(&gguf, tensor, read, &error_));
    tensor = eitp__gguf_find_tensor(&gguf, longest);
    REQUIRE(tensor);
    CHECK(eitp__gguf_read_f32(&gguf, tensor, read, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "unsupported type IQ2_XXS") && strstr(error_.message, "nnn"), "%s",
               error_.message);
    eitp__gguf_close(&gguf);
}

/* ---- Broken files ---- */

static const int64_t one_row[1] = {4};
static const float row_values[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void put_entry(gguf_writer *writer, const char *name, uint32_t rank, const uint64_t *sizes, uint32_t type,
                      uint64_t offset) {
    writer->tensor_count++;
    gguf_put_text(&writer->tensors, name, strlen(name));
    gguf_put(&writer->tensors, rank, 4);
    for (uint32_t i = 0; i < rank && i < 8; i++)
        gguf_put(&writer->tensors, sizes[i], 8);
    gguf_put(&writer->tensors, type, 4);
    gguf_put(&writer->tensors, offset, 8);
}

static void put_shape(gguf_writer *writer, uint64_t inner, uint64_t outer, uint32_t type) {
    const uint64_t sizes[2] = {inner, outer};
    put_entry(writer, "wrong", 2, sizes, type, 0);
    eitp__buffer_add(&writer->data, (const char *)row_values, 32);
}

/* Two tensors of 16 bytes, padded to 32. */
static void put_offsets(gguf_writer *writer, uint64_t first, uint64_t second) {
    static const uint64_t size = 4;
    put_entry(writer, "first", 1, &size, 0, first);
    put_entry(writer, "second", 1, &size, 0, second);
    for (int i = 0; i < 3; i++)
        eitp__buffer_add(&writer->data, (const char *)row_values, 32);
}

static void put_raw_key(gguf_writer *writer, size_t size) {
    char *key = (char *)malloc(size + 1);
    memset(key, 'k', size);
    writer->key_count++;
    gguf_put_text(&writer->keys, key, size);
    gguf_put(&writer->keys, EITP__GGUF_U8, 4);
    gguf_put(&writer->keys, 1, 1);
    free(key);
}

static void put_raw_name(gguf_writer *writer, size_t size) {
    char name[400];
    memset(name, 'n', size);
    name[size] = 0;
    put_entry(writer, name, 0, NULL, 0, 0);
    eitp__buffer_add(&writer->data, (const char *)row_values, 32);
}

static void many_keys_stated(gguf_writer *w) {
    w->key_count = (uint64_t)1 << 63;
}
static void too_many_keys_stated(gguf_writer *w) {
    w->key_count = 65537;
}
static void more_keys_stated(gguf_writer *w) {
    w->key_count = 65536;
}
static void many_tensors_stated(gguf_writer *w) {
    w->tensor_count = (uint64_t)1 << 63;
}
static void more_tensors_stated(gguf_writer *w) {
    w->tensor_count++;
}
static void other_magic(gguf_writer *w) {
    memcpy(w->magic, "ggjt", 4);
}
static void version_1(gguf_writer *w) {
    w->version = 1;
}
static void version_4(gguf_writer *w) {
    w->version = 4;
}
static void version_2_big_endian(gguf_writer *w) {
    w->version = 0x02000000;
}
static void version_3_big_endian(gguf_writer *w) {
    w->version = 0x03000000;
}
static void unknown_kind(gguf_writer *w) {
    gguf_add_key(w, "odd", EITP__GGUF_KINDS);
}
static void largest_kind(gguf_writer *w) {
    w->key_count++;
    gguf_put_text(&w->keys, "odd", 3);
    gguf_put(&w->keys, UINT32_MAX, 4);
}
static void unknown_kind_of_array(gguf_writer *w) {
    gguf_add_array(w, "odd", EITP__GGUF_KINDS, 0);
}
static void array_of_arrays(gguf_writer *w) {
    gguf_add_array(w, "nested", EITP__GGUF_ARRAY, 1);
    gguf_put(&w->keys, EITP__GGUF_U8, 4);
    gguf_put(&w->keys, 1, 8);
    gguf_put(&w->keys, 1, 1);
}
static void many_bytes(gguf_writer *w) {
    gguf_add_array(w, "many", EITP__GGUF_U8, (uint64_t)1 << 63);
}
static void many_halves(gguf_writer *w) {
    gguf_add_array(w, "many", EITP__GGUF_U16, (uint64_t)1 << 63);
}
static void many_doubles(gguf_writer *w) {
    gguf_add_array(w, "many", EITP__GGUF_F64, ((uint64_t)1 << 61) + 1);
}
static void many_texts(gguf_writer *w) {
    gguf_add_array(w, "many", EITP__GGUF_STRING, (uint64_t)1 << 63);
}
static void long_text(gguf_writer *w) {
    gguf_add_key(w, "long", EITP__GGUF_STRING);
    gguf_put(&w->keys, (uint64_t)1 << 63, 8);
}
static void longest_text(gguf_writer *w) {
    gguf_add_key(w, "long", EITP__GGUF_STRING);
    gguf_put(&w->keys, UINT64_MAX, 8);
}
static void longer_than_32_bits(gguf_writer *w) {
    gguf_add_key(w, "long", EITP__GGUF_STRING);
    gguf_put(&w->keys, ((uint64_t)1 << 32) + 2, 8);
    gguf_put(&w->keys, 0x4141, 2);
}
static void long_key(gguf_writer *w) {
    w->key_count++;
    gguf_put(&w->keys, (uint64_t)1 << 63, 8);
}
static void long_name(gguf_writer *w) {
    w->tensor_count++;
    gguf_put(&w->tensors, (uint64_t)1 << 63, 8);
}
static void empty_key(gguf_writer *w) {
    put_raw_key(w, 0);
}
static void key_of_65536_bytes(gguf_writer *w) {
    put_raw_key(w, 65536);
}
static void empty_name(gguf_writer *w) {
    put_raw_name(w, 0);
}
static void name_of_256_bytes(gguf_writer *w) {
    put_raw_name(w, 256);
}
static void same_key_twice(gguf_writer *w) {
    gguf_add_flag(w, "twice", 1);
    gguf_add_flag(w, "two", 1);
    gguf_add_flag(w, "twice", 1);
}
static void five_dimensions(gguf_writer *w) {
    static const uint64_t sizes[5] = {1, 1, 1, 1, 1};
    put_entry(w, "wrong", 5, sizes, 0, 0);
}
static void many_dimensions(gguf_writer *w) {
    static const uint64_t sizes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    put_entry(w, "wrong", UINT32_MAX, sizes, 0, 0);
}
static void size_of_64_bits(gguf_writer *w) {
    put_shape(w, (uint64_t)1 << 63, 1, 0);
}
static void product_of_64_bits(gguf_writer *w) {
    put_shape(w, (uint64_t)1 << 32, (uint64_t)1 << 32, 0);
}
static void product_of_63_bits(gguf_writer *w) {
    put_shape(w, INT64_MAX, 2, 0);
}
static void bytes_of_64_bits(gguf_writer *w) {
    put_shape(w, (uint64_t)1 << 31, (uint64_t)1 << 31, 0);
}
static void larger_than_the_file(gguf_writer *w) {
    put_shape(w, (uint64_t)1 << 30, 1 << 20, 1);
}
static void rows_of_33(gguf_writer *w) {
    put_shape(w, 33, 32, 8);
}
static void rows_of_128(gguf_writer *w) {
    put_shape(w, 128, 2, 12);
}
static void scalar_of_blocks(gguf_writer *w) {
    put_entry(w, "wrong", 0, NULL, 2, 0);
}
static void removed_type(gguf_writer *w) {
    put_shape(w, 32, 1, 4);
}
static void unknown_type(gguf_writer *w) {
    put_shape(w, 32, 1, 43);
}
static void largest_type(gguf_writer *w) {
    put_shape(w, 32, 1, UINT32_MAX);
}
static void swapped(gguf_writer *w) {
    put_offsets(w, 32, 0);
}
static void overlapping(gguf_writer *w) {
    put_offsets(w, 0, 0);
}
static void partly_overlapping(gguf_writer *w) {
    put_offsets(w, 0, 8);
}
static void unaligned(gguf_writer *w) {
    put_offsets(w, 0, 16);
}
static void gap(gguf_writer *w) {
    put_offsets(w, 0, 64);
}
static void far_offset(gguf_writer *w) {
    put_offsets(w, 0, (uint64_t)1 << 63);
}
static void largest_offset(gguf_writer *w) {
    put_offsets(w, UINT64_MAX - 31, 0);
}
static void beyond_the_end(gguf_writer *w) {
    gguf_add_tensor(w, "wrong", 0, one_row, 1, row_values, 16);
    w->cut = 17;
}
static void alignment_0(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_U32, 0);
}
static void alignment_3(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_U32, 3);
}
static void alignment_of_31_bits(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_U32, (int64_t)1 << 31);
}
static void alignment_of_64_bits(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_U64, INT64_MIN);
}
static void negative_alignment(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_I32, -32);
}
static void large_alignment(gguf_writer *w) {
    gguf_add_integer(w, "general.alignment", EITP__GGUF_U32, 1 << 30);
    gguf_add_tensor(w, "wrong", 0, one_row, 1, row_values, 16);
}
static void alignment_of_text(gguf_writer *w) {
    gguf_add_text(w, "general.alignment", "32");
}
static void split_count_of_text(gguf_writer *w) {
    gguf_add_text(w, "split.count", "2");
}
static void many_files(gguf_writer *w) {
    gguf_add_integer(w, "split.count", EITP__GGUF_U16, 1001);
}
static void negative_files(gguf_writer *w) {
    gguf_add_integer(w, "split.count", EITP__GGUF_I32, -1);
}
static void negative_file(gguf_writer *w) {
    gguf_add_integer(w, "split.no", EITP__GGUF_I32, -1);
}

typedef struct broken_file {
    const char *what;
    void (*change)(gguf_writer *writer);
    eitp_status status;
    const char *message; /* a part of it */
} broken_file;

#define ENDS_IN_HEADER EITP_ERROR_FORMAT, "the file ends in its header"
#define BROKEN(change, ...)                                                                                            \
    { #change, change, __VA_ARGS__ }

static const broken_file broken_files[] = {
    BROKEN(many_keys_stated, EITP_ERROR_FORMAT, "states 9223372036854775808 keys"),
    BROKEN(too_many_keys_stated, EITP_ERROR_FORMAT, "states 65537 keys and 0 tensors, more than it can have"),
    BROKEN(more_keys_stated, ENDS_IN_HEADER),
    BROKEN(many_tensors_stated, EITP_ERROR_FORMAT, "9223372036854775808 tensors"),
    BROKEN(more_tensors_stated, EITP_ERROR_FORMAT, "a tensor's name has 0 bytes"),
    BROKEN(other_magic, EITP_ERROR_FORMAT, "not a GGUF file"),
    BROKEN(version_1, EITP_ERROR_UNSUPPORTED, "unsupported GGUF version 1 (supported: 2 and 3)"),
    BROKEN(version_4, EITP_ERROR_UNSUPPORTED, "unsupported GGUF version 4 (supported: 2 and 3)"),
    BROKEN(version_2_big_endian, EITP_ERROR_UNSUPPORTED, "big-endian"),
    BROKEN(version_3_big_endian, EITP_ERROR_UNSUPPORTED, "big-endian"),
    BROKEN(unknown_kind, EITP_ERROR_FORMAT, "key 'odd' has unknown value type 13"),
    BROKEN(largest_kind, EITP_ERROR_FORMAT, "key 'odd' has unknown value type 4294967295"),
    BROKEN(unknown_kind_of_array, EITP_ERROR_FORMAT, "key 'odd' has unknown value type 13"),
    BROKEN(array_of_arrays, EITP_ERROR_UNSUPPORTED, "key 'nested': unsupported array of arrays"),
    BROKEN(many_bytes, ENDS_IN_HEADER),
    BROKEN(many_halves, ENDS_IN_HEADER),
    BROKEN(many_doubles, ENDS_IN_HEADER),
    BROKEN(many_texts, ENDS_IN_HEADER),
    BROKEN(long_text, ENDS_IN_HEADER),
    BROKEN(longest_text, ENDS_IN_HEADER),
    BROKEN(longer_than_32_bits, ENDS_IN_HEADER),
    BROKEN(long_key, ENDS_IN_HEADER),
    BROKEN(long_name, ENDS_IN_HEADER),
    BROKEN(empty_key, EITP_ERROR_FORMAT, "a key has 0 bytes"),
    BROKEN(key_of_65536_bytes, EITP_ERROR_FORMAT, "a key has 65536 bytes"),
    BROKEN(empty_name, EITP_ERROR_FORMAT, "a tensor's name has 0 bytes"),
    BROKEN(name_of_256_bytes, EITP_ERROR_FORMAT, "a tensor's name has 256 bytes"),
    BROKEN(same_key_twice, EITP_ERROR_FORMAT, "key 'twice' appears twice"),
    BROKEN(five_dimensions, EITP_ERROR_FORMAT, "tensor 'wrong': has 5 dimensions; a GGUF file allows 4"),
    BROKEN(many_dimensions, EITP_ERROR_FORMAT, "tensor 'wrong': has 4294967295 dimensions"),
    BROKEN(size_of_64_bits, EITP_ERROR_FORMAT, "tensor 'wrong': has more elements than 64 bits can count"),
    BROKEN(product_of_64_bits, EITP_ERROR_FORMAT, "tensor 'wrong': has more elements than 64 bits can count"),
    BROKEN(product_of_63_bits, EITP_ERROR_FORMAT, "tensor 'wrong': has more elements than 64 bits can count"),
    BROKEN(bytes_of_64_bits, EITP_ERROR_FORMAT, "tensor 'wrong': has more bytes than 64 bits can count"),
    BROKEN(larger_than_the_file, EITP_ERROR_FORMAT, "tensor 'wrong' ends after the file"),
    BROKEN(rows_of_33, EITP_ERROR_FORMAT, "tensor 'wrong': has rows of 33 values, which Q8_0 blocks of 32"),
    BROKEN(rows_of_128, EITP_ERROR_FORMAT, "tensor 'wrong': has rows of 128 values, which Q4_K blocks of 256"),
    BROKEN(scalar_of_blocks, EITP_ERROR_FORMAT, "tensor 'wrong': has rows of 1 values, which Q4_0 blocks of 32"),
    BROKEN(removed_type, EITP_ERROR_UNSUPPORTED, "tensor 'wrong': has unknown type number 4"),
    BROKEN(unknown_type, EITP_ERROR_UNSUPPORTED, "tensor 'wrong': has unknown type number 43"),
    BROKEN(largest_type, EITP_ERROR_UNSUPPORTED, "tensor 'wrong': has unknown type number 4294967295"),
    BROKEN(swapped, EITP_ERROR_FORMAT, "tensor 'first' is at byte 32 of the data, expected 0"),
    BROKEN(overlapping, EITP_ERROR_FORMAT, "tensor 'second' is at byte 0 of the data, expected 32"),
    BROKEN(partly_overlapping, EITP_ERROR_FORMAT, "tensor 'second' is at byte 8 of the data, expected 32"),
    BROKEN(unaligned, EITP_ERROR_FORMAT, "tensor 'second' is at byte 16 of the data, expected 32"),
    BROKEN(gap, EITP_ERROR_FORMAT, "tensor 'second' is at byte 64 of the data, expected 32"),
    BROKEN(far_offset, EITP_ERROR_FORMAT, "tensor 'second' is at byte 9223372036854775808 of the data"),
    BROKEN(largest_offset, EITP_ERROR_FORMAT, "tensor 'first' is at byte 18446744073709551584 of the data"),
    BROKEN(beyond_the_end, EITP_ERROR_FORMAT, "tensor 'wrong' ends after the file; the file is truncated"),
    BROKEN(alignment_0, EITP_ERROR_FORMAT, "key 'general.alignment' is 0, which is outside 1 to"),
    BROKEN(alignment_3, EITP_ERROR_FORMAT, "general.alignment is 3, which is not a power of two"),
    BROKEN(alignment_of_31_bits, EITP_ERROR_FORMAT, "key 'general.alignment' is 2147483648, which is outside 1 to"),
    BROKEN(alignment_of_64_bits, EITP_ERROR_FORMAT, "key 'general.alignment' is 9223372036854775808, which is outside"),
    BROKEN(negative_alignment, EITP_ERROR_FORMAT, "key 'general.alignment' is -32, which is outside"),
    BROKEN(large_alignment, EITP_ERROR_FORMAT, "tensor 'wrong' ends after the file"),
    BROKEN(alignment_of_text, EITP_ERROR_FORMAT, "key 'general.alignment' must be an integer"),
    BROKEN(split_count_of_text, EITP_ERROR_FORMAT, "key 'split.count' must be an integer"),
    BROKEN(many_files, EITP_ERROR_FORMAT, "key 'split.count' is 1001, which is outside"),
    BROKEN(negative_files, EITP_ERROR_FORMAT, "key 'split.count' is -1, which is outside"),
    BROKEN(negative_file, EITP_ERROR_FORMAT, "key 'split.no' is -1, which is outside"),
};

static void broken_files_are_refused(void) {
    static unsigned char bytes[MOST_BYTES];
    for (size_t i = 0; i < EITP__COUNT(broken_files); i++) {
        const broken_file *b = &broken_files[i];
        gguf_writer writer;
        eitp_status status;
        size_t size;
        gguf_start(&writer);
        b->change(&writer);
        REQUIRE(gguf_finish(&writer, in("broken")));
        size = read_bytes(in("broken"), bytes);
        status = open_bytes(bytes, size);
        CHECK_THAT(status == b->status && strstr(error_.message, b->message), "%s: status %d: %s", b->what, (int)status,
                   error_.message);
    }
}

/* Values at a limit, which broken files exceed. */
static void limits_are_accepted(void) {
    gguf_writer writer;
    eitp__gguf gguf;
    gguf_start(&writer);
    put_raw_key(&writer, 65535);
    gguf_add_array(&writer, "nothing", EITP__GGUF_F64, 0);
    put_raw_name(&writer, 255);
    REQUIRE(gguf_finish(&writer, in("limits")));
    CHECK_THAT(!open_file(in("limits"), &gguf), "%s", error_.message);
    eitp__gguf_close(&gguf);
    gguf_start(&writer);
    put_offsets(&writer, 0, 32);
    REQUIRE(gguf_finish(&writer, in("limits")));
    CHECK_THAT(!open_file(in("limits"), &gguf), "%s", error_.message);
    eitp__gguf_close(&gguf);
}

static void other_files_are_refused(void) {
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n";
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } files[] = {
        {"", 0, "not a GGUF file"},
        {"G", 1, "not a GGUF file"},
        {"GGU", 3, "not a GGUF file"},
        {"GGUF", 4, "the file ends in its header"},
        {"FUGG\3\0\0\0", 8, "not a GGUF file"},
        {"{\"a\": 1}\n", 9, "not a GGUF file"},
        {lfs, sizeof lfs - 1, "is a Git LFS pointer; fetch the file with: git lfs pull"},
    };
    eitp__gguf gguf;
    for (size_t i = 0; i < EITP__COUNT(files); i++)
        CHECK_THAT(open_bytes(files[i].bytes, files[i].size) == EITP_ERROR_FORMAT &&
                       strstr(error_.message, files[i].message),
                   "%zu: %s", i, error_.message);
    CHECK(open_file(in("missing"), &gguf) == EITP_ERROR_ARGUMENT && strstr(error_.message, "/missing"));
    eitp__gguf_close(&gguf);
    CHECK(open_file(directory, &gguf) && strstr(error_.message, directory));
    eitp__gguf_close(&gguf);
    eitp__gguf_close(&gguf);
}

/* A small file with each part of the format; its last tensor is padded by `*padding` bytes. */
static size_t write_small(const char *path, unsigned char *bytes, size_t *padding) {
    static const char *const texts[] = {"a", "bc"};
    static const int64_t numbers[] = {1, 2, 3};
    gguf_writer writer;
    gguf_start(&writer);
    gguf_add_text(&writer, "general.architecture", "llama");
    gguf_add_texts(&writer, "strings", texts, 2);
    gguf_add_integers(&writer, "numbers", EITP__GGUF_I32, numbers, 3);
    gguf_add_flag(&writer, "flag", 1);
    gguf_add_real(&writer, "real", EITP__GGUF_F32, 1);
    add_f32(&writer, "one", 4, row_values);
    add_f32(&writer, "two", 5, row_values);
    *padding = 32 - 5 * 4;
    return gguf_finish(&writer, path) ? read_bytes(path, bytes) : 0;
}

/* A file that ends early is refused, unless only the padding after the last tensor is missing. */
static void every_truncation_is_refused(void) {
    static unsigned char bytes[MOST_BYTES];
    size_t padding, size = write_small(in("small"), bytes, &padding);
    REQUIRE(size > 100);
    for (size_t kept = 0; kept <= size; kept++) {
        const eitp_status status = open_bytes(bytes, kept);
        CHECK_THAT(status == (kept >= size - padding ? EITP_OK : EITP_ERROR_FORMAT), "%zu of %zu bytes: %s", kept, size,
                   status ? error_.message : "accepted");
        const char *message = kept < 4                  ? "not a GGUF file"
                              : kept >= 24 && kept < 48 ? "more than it can have"
                                                        : "download it again";
        CHECK_THAT(!status || strstr(error_.message, message), "%zu of %zu bytes: %s", kept, size, error_.message);
    }
}

/* Any byte may have any value: the file is accepted or refused, with bounded memory. */
static void every_changed_byte_is_survived(void) {
    static unsigned char bytes[MOST_BYTES];
    static const unsigned char values[] = {0, 1, 2, 8, 9, 12, 13, 32, 0x7f, 0x80, 0xff};
    size_t padding, size = write_small(in("small"), bytes, &padding);
    REQUIRE(size > 100);
    for (size_t at = 0; at < size; at++) {
        const unsigned char byte = bytes[at];
        for (size_t i = 0; i < sizeof values; i++) {
            bytes[at] = values[i];
            open_bytes(bytes, size);
        }
        bytes[at] = byte;
    }
}

/* ---- Large headers ---- */

static void fill_with_keys(gguf_writer *writer, int count) {
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%x", (unsigned)i);
        gguf_add_integer(writer, key, EITP__GGUF_U8, i % 256);
    }
}

static void memory_is_proportional_to_the_file(void) {
    static unsigned char bytes[MOST_BYTES];
    gguf_writer writer;
    size_t size;
    gguf_start(&writer);
    fill_with_keys(&writer, 30000);
    REQUIRE(gguf_finish(&writer, in("keys")));
    size = read_bytes(in("keys"), bytes);
    CHECK_THAT(!open_bytes(bytes, size), "%s", error_.message);
    gguf_start(&writer);
    for (int i = 0; i < 20000; i++) {
        char name[8];
        snprintf(name, sizeof name, "%x", (unsigned)i);
        put_entry(&writer, name, 0, NULL, 24, (uint64_t)i);
        gguf_put(&writer.data, 1, 1);
    }
    writer.alignment = 1;
    gguf_add_integer(&writer, "general.alignment", EITP__GGUF_U8, 1);
    REQUIRE(gguf_finish(&writer, in("tensors")));
    size = read_bytes(in("tensors"), bytes);
    CHECK_THAT(!open_bytes(bytes, size), "%s", error_.message);
}

/* A header that is read in several steps, whole and cut at several places. */
static void long_headers_are_read(void) {
    static unsigned char bytes[MOST_BYTES];
    eitp__gguf gguf;
    gguf_writer writer;
    size_t size;
    int64_t value = 0;
    gguf_start(&writer);
    fill_with_keys(&writer, 50000);
    add_f32(&writer, "one", 4, row_values);
    REQUIRE(gguf_finish(&writer, in("long")));
    REQUIRE_OK(open_file(in("long"), &gguf), error_);
    CHECK(gguf.value_count == 50000 && gguf.tensor_count == 1 && gguf.files[0].header_size > 600000);
    CHECK(!eitp__gguf_get_integer(&gguf, "c34f", 0, 255, &value, &error_) && value == 49999 % 256);
    eitp__gguf_close(&gguf);
    size = read_bytes(in("long"), bytes);
    for (size_t kept = size - 100; kept > 200000; kept -= kept / 3)
        CHECK_THAT(open_bytes(bytes, kept) == EITP_ERROR_FORMAT && strstr(error_.message, "ends in its header"), "%s",
                   error_.message);
}

/* A sparse file whose header never ends. */
static void endless_headers_are_refused(void) {
    eitp__gguf gguf;
    gguf_writer writer;
    faults f;
    gguf_start(&writer);
    gguf_add_array(&writer, "many", EITP__GGUF_U8, (uint64_t)1 << 40);
    REQUIRE(gguf_finish(&writer, in("endless")));
    REQUIRE(!truncate(in("endless"), (off_t)1 << 32));
    faults_begin(&f);
    CHECK(open_on(&f.host, in("endless"), &gguf) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "the header has more than 134217728 bytes"), "%s", error_.message);
    CHECK(f.peak_bytes < EITP__GGUF_MAX_HEADER + 8192);
    eitp__gguf_close(&gguf);
    faults_end(&f);
}

/* ---- Several files ---- */

/* Writes a file of a model with one tensor. A negative number leaves its key out. */
static int write_part(const char *path, const char *tensor, int number, int count) {
    gguf_writer writer;
    gguf_start(&writer);
    gguf_add_integer(&writer, "only here", EITP__GGUF_I32, number);
    if (number >= 0)
        gguf_add_integer(&writer, "split.no", EITP__GGUF_U16, number);
    if (count >= 0)
        gguf_add_integer(&writer, "split.count", EITP__GGUF_U16, count);
    add_f32(&writer, tensor, 4, row_values + (number > 0 ? number : 0));
    return gguf_finish(&writer, path);
}

static int write_parts(void) {
    return write_part(in("m-00001-of-00003.gguf"), "one", 0, 3) &&
           write_part(in("m-00002-of-00003.gguf"), "two", 1, 3) &&
           write_part(in("m-00003-of-00003.gguf"), "three", 2, 3);
}

static void several_files_are_one_model(void) {
    eitp__gguf gguf;
    int64_t number = 5;
    REQUIRE(write_parts());
    REQUIRE_OK(open_file(in("m-00001-of-00003.gguf"), &gguf), error_);
    CHECK(gguf.file_count == 3 && gguf.tensor_count == 3);
    CHECK(!eitp__gguf_get_integer(&gguf, "only here", 0, 9, &number, &error_) && number == 0);
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"one", "two", "three"};
        const eitp__gguf_tensor *tensor = eitp__gguf_find_tensor(&gguf, names[i]);
        float values[4] = {0};
        REQUIRE(tensor && tensor->file == i);
        REQUIRE_OK(eitp__gguf_read_f32(&gguf, tensor, values, &error_), error_);
        CHECK(!memcmp(values, row_values + i, sizeof values));
    }
    eitp__gguf_close(&gguf);
}

static void check_refused(const char *path, eitp_status status, const char *name, const char *message) {
    eitp__gguf gguf;
    const eitp_status opened = open_file(path, &gguf);
    CHECK_THAT(opened == status && strstr(error_.message, name) && strstr(error_.message, message), "status %d: %s",
               (int)opened, error_.message);
    eitp__gguf_close(&gguf);
}

static void wrong_parts_are_refused(void) {
    const char *first = in("s-00001-of-00002.gguf"), *second = in("s-00002-of-00002.gguf");
    REQUIRE(write_part(first, "one", 0, 2));
    check_refused(first, EITP_ERROR_ARGUMENT, "s-00002-of-00002.gguf", "no such file");
    REQUIRE(write_part(second, "two", 1, 2));
    check_refused(second, EITP_ERROR_ARGUMENT, "s-00002-of-00002.gguf", "is file 2 of a model in several files");
    REQUIRE(write_part(second, "two", 0, 2));
    check_refused(first, EITP_ERROR_ARGUMENT, "s-00002-of-00002.gguf", "is file 1 of a model, expected file 2");
    REQUIRE(write_part(second, "two", -1, -1));
    check_refused(first, EITP_ERROR_ARGUMENT, "s-00002-of-00002.gguf", "is file 1 of a model, expected file 2");
    REQUIRE(!truncate(second, 50));
    check_refused(first, EITP_ERROR_FORMAT, "s-00002-of-00002.gguf", "ends in its header");
    REQUIRE(write_part(first, "one", 0, 3));
    check_refused(first, EITP_ERROR_ARGUMENT, "s-00001-of-00002.gguf", "must be named NAME-00001-of-00003.gguf");
    REQUIRE(write_part(in("other.gguf"), "one", 0, 2));
    check_refused(in("other.gguf"), EITP_ERROR_ARGUMENT, "other.gguf", "must be named NAME-00001-of-00002.gguf");
    REQUIRE(write_part(in("f"), "one", 0, 2));
    check_refused(in("f"), EITP_ERROR_ARGUMENT, "f: the first of 2 files", "must be named NAME-00001-of-00002.gguf");
}

/* llama-gguf-split leaves a count of 0 in files that it has merged. */
static void merged_files_are_whole(void) {
    eitp__gguf gguf;
    for (int count = 0; count < 2; count++) {
        REQUIRE(write_part(in("merged.gguf"), "one", 0, count));
        CHECK_THAT(!open_file(in("merged.gguf"), &gguf) && gguf.file_count == 1, "%s", error_.message);
        eitp__gguf_close(&gguf);
    }
}

/* ---- Failing calls ---- */

static eitp_status open_and_read(const eitp_host *host, const char *path) {
    eitp__gguf gguf;
    float values[4];
    eitp_status status = open_on(host, path, &gguf);
    for (size_t i = 0; i < gguf.tensor_count && !status; i++) {
        status = eitp__gguf_read_f32(&gguf, &gguf.tensors[i], values, &error_);
        CHECK(status || !memcmp(values, row_values + i, sizeof values));
    }
    eitp__gguf_close(&gguf);
    return status;
}

/* Each allocation and file call fails once, and is short once, in a model of three files. */
static void failures_leak_nothing(void) {
    char path[600];
    REQUIRE(write_parts());
    snprintf(path, sizeof path, "%s", in("m-00001-of-00003.gguf"));
    for (int kind = 0; kind < 4; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            faults f;
            eitp_status status;
            faults_begin(&f);
            f.fail_allocation = kind ? 0 : n;
            f.fail_file_call = kind ? n : 0;
            f.all_file_calls = kind == 2;
            f.shorten = kind == 3 ? FAULTS_HALF : FAULTS_WHOLE;
            status = open_and_read(&f.host, path);
            more = faults_end(&f);
            if (!more || kind == 3 || (kind == 1 && !strcmp(f.failed_call, "close")))
                CHECK_THAT(!status, "%s", error_.message);
            else if (!kind || strcmp(f.failed_call, "close"))
                CHECK_THAT(status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "call %ld: status %d: %s", n,
                           (int)status, error_.message);
            CHECK_THAT(!status || !kind || strstr(error_.message, "m-0000"), "%s", error_.message);
        }
    }
}

static void files_are_recognized(void) {
    const eitp_host host = eitp_host_default();
    FILE *file = fopen(in("text"), "wb");
    REQUIRE(write_part(in("merged.gguf"), "one", 0, 0));
    REQUIRE(file && fwrite("GGU", 1, 3, file) == 3 && !fclose(file));
    static const char *const names[] = {"merged.gguf", "text", "", "missing"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        int is_gguf = -1;
        CHECK_THAT(!eitp__path_is_gguf(&host, in(names[i]), &is_gguf, &error_), "%s", error_.message);
        CHECK_THAT(is_gguf == !i, "%s", names[i]);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(integers_of_every_kind_are_read),
        TEST(larger_integers_are_refused),
        TEST(numbers_are_read),
        TEST(flags_and_texts_are_read),
        TEST(arrays_are_read),
        TEST(missing_keys_change_nothing),
        TEST(integers_of_other_kinds_are_refused),
        TEST(elements_are_read_in_any_range),
        TEST(unusual_files_are_read),
        TEST(broken_files_are_refused),
        TEST(limits_are_accepted),
        TEST(other_files_are_refused),
        TEST(every_truncation_is_refused),
        TEST(every_changed_byte_is_survived),
        TEST(memory_is_proportional_to_the_file),
        TEST(long_headers_are_read),
        TEST(endless_headers_are_refused),
        TEST(several_files_are_one_model),
        TEST(wrong_parts_are_refused),
        TEST(merged_files_are_whole),
        TEST(failures_leak_nothing),
        TEST(files_are_recognized),
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

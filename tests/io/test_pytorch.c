/* Reading torch.save files: dtypes, layouts, archives, refused files, and whole models. */
#include "tests/support/everything.h"

#include "io/pytorch.h"
#include "tensor/context.h"

#include "tests/support/faults.h"
#include "tests/support/one_file.h"
#include "tests/support/pytorch_file.h"

#define GOLDEN "tests/golden/"

static char directory[512];
static const float six[6] = {0, 1, 2, 3, 4, 5};

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

static void put(const char *name, const void *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    CHECK_THAT(!eitp__write_file(&host, in(name), data, size, &error), "%s", error.message);
}

static eitp__safetensors *open_named(const char *name, const void *data, size_t size, eitp_status *status,
                                     eitp_error *error) {
    static one_file file; /* read until the collection is closed */
    static eitp_host host;
    eitp__safetensors *collection = NULL;
    file.data = data;
    file.size = size;
    host = one_file_host(&file);
    *status = eitp__pytorch_open(&host, name, &collection, error);
    CHECK((*status == EITP_OK) == (collection != NULL));
    return collection;
}

static eitp__safetensors *open_bytes(const void *data, size_t size, eitp_status *status, eitp_error *error) {
    return open_named("weights.bin", data, size, status, error);
}

static size_t read_bytes(const char *path, char *bytes, size_t limit) {
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, limit, file) : 0;
    if (file)
        fclose(file);
    return size;
}

/* Puts a pickle into an archive in which storage '0' has six floats, '1' eight bytes, and '2' nothing. */
static byte_buffer make_archive(const byte_buffer *pickle, int is_zip64) {
    byte_buffer archive = EITP__ZERO;
    zip_writer zip;
    zip_begin(&zip, &archive);
    zip.is_zip64 = is_zip64;
    zip_add(&zip, "m/data.pkl", pickle->data, pickle->size);
    zip_add(&zip, "m/byteorder", "little", 6);
    zip_add(&zip, "m/data/0", six, sizeof six);
    zip_add(&zip, "m/data/1", "abcdefgh", 8);
    zip_add(&zip, "m/data/2", "", 0);
    zip_end(&zip);
    return archive;
}

/* A pickle of two views of storage '0' and one view of '1'. */
static byte_buffer make_pickle(void) {
    static const int64_t shape[] = {2, 3}, stride[] = {3, 1}, transposed[] = {3, 2}, along[] = {1, 3}, one = 1, two = 2;
    byte_buffer pickle = EITP__ZERO;
    pickle_begin(&pickle);
    pickle_tensor(&pickle, "b.weight", "FloatStorage", "0", 6, 0, 2, shape, stride);
    pickle_tensor(&pickle, "a.weight", "FloatStorage", "0", 6, 0, 2, transposed, along);
    pickle_tensor(&pickle, "c", "LongStorage", "1", 1, 0, 1, &one, &two);
    pickle_end(&pickle);
    return pickle;
}

/* ---- Supported files ---- */

static int values_are(const eitp__safetensors *collection, const char *name, const float *expected, int64_t count) {
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, name);
    eitp_error error;
    float values[40];
    return entry && entry->count == count && count <= 40 &&
           !eitp__safetensors_read_f32(collection, entry, 0, count, values, NULL, &error) &&
           !memcmp(values, expected, (size_t)count * sizeof *values);
}

static void reads_what_torch_writes(void) {
    static const float wte[] = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, transposed[] = {0, 0.75f, 0.25f, 1, 0.5f, 1.25f};
    static const float parameter[] = {1.5f, -2, INFINITY, 5.9604645e-8f, 65504}, bfloat[] = {1, -3, 0.15625f};
    static const float wide[] = {0.1f, -INFINITY, 2.5f}, scalar = 123.5f, zeros[6] = {0};
    static const struct {
        const char *name, *type;
        int rank;
    } others[] = {{"position_ids", "I64", 2}, {"integers", "I32", 1}, {"short", "I16", 1}, {"signed", "I8", 1},
                  {"bytes", "U8", 1},         {"mask", "BOOL", 1},    {"empty", "F32", 2}, {"scalar", "F32", 0}};
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    eitp_error error;
    float halves[35];
    int16_t shorts[2];
    REQUIRE_OK(eitp__pytorch_open(&host, GOLDEN "pytorch/tensors.bin", &collection, &error), error);
    CHECK(eitp__safetensors_count(collection) == 18);
    CHECK(values_are(collection, "wte.weight", wte, 6) && values_are(collection, "tied", wte, 6));
    CHECK(values_are(collection, "row", wte + 3, 3) && values_are(collection, "column", wte + 1, 1));
    CHECK(values_are(collection, "transposed", transposed, 6));
    CHECK(values_are(collection, "parameter", parameter, 5) && values_are(collection, "bfloat", bfloat, 3));
    CHECK(values_are(collection, "double", wide, 3) && values_are(collection, "scalar", &scalar, 1));
    CHECK(values_are(collection, "caf\xc3\xa9", zeros, 6));
    for (int i = 0; i < 35; i++)
        halves[i] = (float)i - 9;
    CHECK(values_are(collection, "half.transposed", halves, 35));
    for (size_t i = 0; i < EITP__COUNT(others); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, others[i].name);
        CHECK_THAT(entry && !strcmp(entry->type, others[i].type) && entry->rank == others[i].rank, "%s",
                   others[i].name);
    }
    CHECK(!eitp__safetensors_read(collection, eitp__safetensors_find(collection, "short"), 0, 2, shorts, NULL, &error));
    CHECK(shorts[0] == -2 && shorts[1] == 300);
    eitp__safetensors_close(collection);
}

/* Any range of a transposed matrix equals the same range of the matrix. */
static void ranges_of_transposed_matrices(void) {
    enum { ROWS = 9000, COLUMNS = 3, MARGIN = 4 }; /* a column is larger than the buffer */
    static double stored[ROWS * COLUMNS], room[ROWS * COLUMNS + 2 * MARGIN];
    double *const read = room + MARGIN;
    static const int64_t shape[] = {ROWS, COLUMNS}, stride[] = {1, ROWS};
    byte_buffer pickle = EITP__ZERO, archive = EITP__ZERO;
    zip_writer zip;
    eitp_error error;
    eitp_status status;
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++)
            stored[c * ROWS + r] = r * COLUMNS + c;
    }
    pickle_begin(&pickle);
    pickle_tensor(&pickle, "w", "DoubleStorage", "0", ROWS * COLUMNS, 0, 2, shape, stride);
    pickle_end(&pickle);
    zip_begin(&zip, &archive);
    zip_add(&zip, "m/data.pkl", pickle.data, pickle.size);
    zip_add(&zip, "m/data/0", stored, sizeof stored);
    zip_end(&zip);
    eitp__safetensors *collection = open_bytes(archive.data, archive.size, &status, &error);
    REQUIRE(collection);
    for (size_t i = 0; i < EITP__COUNT(room); i++)
        room[i] = -1;
    for (int64_t first = 0; first < ROWS * COLUMNS; first += first < 10 ? 1 : 4001) {
        for (int64_t count = 0; count <= ROWS * COLUMNS - first; count += count < 10 ? 1 : 5003) {
            int same = !eitp__safetensors_read(collection, eitp__safetensors_at(collection, 0), first, count, read,
                                               NULL, &error);
            for (int64_t i = 0; i < count && same; i++)
                same = read[i] == (double)(first + i);
            for (int64_t i = -MARGIN; i < count + MARGIN; i++) {
                same &= (i >= 0 && i < count) || read[i] == -1;
                read[i] = -1;
            }
            CHECK_THAT(same, "%lld from %lld", (long long)count, (long long)first);
        }
    }
    CHECK(eitp__safetensors_read(collection, eitp__safetensors_at(collection, 0), 1, ROWS * COLUMNS, read, NULL,
                                 &error) == EITP_ERROR_ARGUMENT);
    eitp__safetensors_close(collection);
    free(pickle.data);
    free(archive.data);
}

static void reads_zip64(void) {
    static const float transposed[] = {0, 3, 1, 4, 2, 5};
    byte_buffer pickle = make_pickle();
    for (int is_zip64 = 0; is_zip64 < 2; is_zip64++) {
        byte_buffer archive = make_archive(&pickle, is_zip64);
        eitp_status status;
        eitp_error error;
        eitp__safetensors *collection = open_bytes(archive.data, archive.size, &status, &error);
        CHECK_THAT(collection, "%s", error.message);
        if (collection) {
            CHECK(eitp__safetensors_count(collection) == 3 && values_are(collection, "b.weight", six, 6));
            CHECK(!memcmp(eitp__safetensors_at(collection, 0)->name, "a.weight", 9));
            CHECK(values_are(collection, "a.weight", transposed, 6));
        }
        eitp__safetensors_close(collection);
        free(archive.data);
    }
    free(pickle.data);
}

/* ---- Refused files ---- */

#define DICTIONARY "\x80\x02}("
#define STORAGE                                                                                                        \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                                                                 \
    "0X\3\0\0\0cpuK\6tQ"
#define CALL "ctorch._utils\n_rebuild_tensor_v2\n("
#define REBUILD "X\1\0\0\0w" CALL
#define PICKLE(codes) (codes), sizeof(codes) - 1

static void refuses_other_pickles(void) {
    static const struct {
        const char *pickle;
        size_t size;
        const char *message;
    } cases[] = {
        {PICKLE("\x80\x02"
                "cos\nsystem\nX\2\0\0\0lstR."),
         "byte 49: refers to 'os.system'; only a dict of plain tensors"},
        {PICKLE("\x80\x02"
                "cposix\nsystem\nq\0."),
         "refers to 'posix.system'"},
        {PICKLE("\x80\x02"
                "ctorch\nload\n."),
         "refers to 'torch.load'"},
        {PICKLE("\x80\x02"
                "ctorch\nComplexFloatStorage\n."),
         "refers to 'torch.ComplexFloatStorage'"},
        {PICKLE("\x80\x02"
                "ctorch._utils\n_rebuild_tensor_v3\n."),
         "refers to 'torch._utils._rebuild_tensor_v3'"},
        {PICKLE("\x80\x02"
                "c__builtin__\neval\n."),
         "refers to '__builtin__.eval'"},
        {PICKLE("\x80\x02"
                "ios\nsystem\n."),
         "byte 49: instruction 0x69 does not occur in a pickle of tensors"},
        {PICKLE("\x80\x02]."), "instruction 0x5d"},
        {PICKLE("\x80\x02N."), "instruction 0x4e"},
        {PICKLE("\x80\x02}\x81."), "instruction 0x81"},
        {PICKLE("\x80\x02\x93."), "instruction 0x93"},
        {PICKLE("\x80\x04}."), "pickle protocol 4 (expected 2"},
        {PICKLE("}\x80\x02."), "a protocol within the pickle"},
        {PICKLE(""), "ends without its last instruction"},
        {PICKLE("\x80"), "ends within an instruction"},
        {PICKLE("\x80\x02}"), "ends without its last instruction"},
        {PICKLE("\x80\x02K"), "ends within an instruction"},
        {PICKLE("\x80\x02X\377\377\377\377w."), "ends within an instruction"},
        {PICKLE("\x80\x02\x8a\xff\1."), "ends within an instruction"},
        {PICKLE("\x80\x02\x8a\11ABCDEFGHI."), "more than 64 bits"},
        {PICKLE("\x80\x02"
                "ctorch\n"),
         "ends within an instruction"},
        {PICKLE("\x80\x02."), "not a dict of tensors"},
        {PICKLE("\x80\x02K\1."), "not a dict of tensors"},
        {PICKLE("\x80\x02}}."), "not a dict of tensors"},
        {PICKLE("\x80\x02}}b}X\1\0\0\0a}s."), "not a dict of tensors"},
        {PICKLE("\x80\x02}.}"), "bytes follow the end"},
        {PICKLE("\x80\x02t."), "a mark is missing"},
        {PICKLE("\x80\x02u."), "a mark is missing"},
        {PICKLE("\x80\x02}(X\1\0\0\0wu."), "a name without a value"},
        {PICKLE("\x80\x02(u."), "not a dictionary"},
        {PICKLE("\x80\x02s."), "a value is missing"},
        {PICKLE("\x80\x02(\x85."), "a value is missing"},
        {PICKLE("\x80\x02K\1(\x86."), "a value is missing"},
        {PICKLE("\x80\x02K\1\x86."), "a value is missing"},
        {PICKLE("\x80\x02(q\0."), "a value is missing"},
        {PICKLE("\x80\x02R."), "a value is missing"},
        {PICKLE("\x80\x02Q."), "a value is missing"},
        {PICKLE("\x80\x02"
                "b."),
         "a value is missing"},
        {PICKLE("\x80\x02}K\1b."), "attributes that are not a dictionary"},
        {PICKLE("\x80\x02K\1}b."), "not a dictionary"},
        {PICKLE("\x80\x02h\0."), "a memo that was not set"},
        {PICKLE("\x80\x02j\377\377\377\377."), "a memo that was not set"},
        {PICKLE("\x80\x02}q\1."), "memo 1 follows memo 0"},
        {PICKLE("\x80\x02}r\377\377\377\177."), "memo 2147483647 follows memo 0"},
        {PICKLE("\x80\x02})R."), "a call that does not make"},
        {PICKLE("\x80\x02"
                "ctorch\nFloatStorage\n)R."),
         "a call that does not make"},
        {PICKLE("\x80\x02"
                "ccollections\nOrderedDict\nK\1\x85R."),
         "a call that does not make"},
        {PICKLE("\x80\x02"
                "ctorch._utils\n_rebuild_tensor_v2\n)R."),
         "a call that does not make"},
        {PICKLE("\x80\x02"
                "ctorch._utils\n_rebuild_parameter\n(}\x88}tR."),
         "a call that does not make"},
        {PICKLE("\x80\x02)Q."), "a persistent id that is not"},
        {PICKLE("\x80\x02"
                "0"),
         "instruction 0x30"},
        {PICKLE("\x80\x02(X\7\0\0\0storageccollections\nOrderedDict\nX\1\0\0\0"
                "0X\3\0\0\0cpuK\6tQ."),
         "a persistent id that is not"},
        {PICKLE("\x80\x02(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                "0X\3\0\0\0cpuJ\377\377\377\377tQ."),
         "a persistent id that is not"},
        {PICKLE(DICTIONARY "X\1\0\0\0w}u."), "'w' is not a tensor; save the model's state dict"},
        {PICKLE(DICTIONARY "X\5\0\0\0modelh\0u."), "a memo that was not set"},
        {PICKLE("\x80\x02}q\0(X\1\0\0\0wh\0u."), "'w' is not a tensor"},
        {PICKLE(DICTIONARY "X\1\0\0\0wK\1u."), "'w' is not a tensor"},
        {PICKLE(DICTIONARY "K\1K\1u."), "a tensor whose name is not a string"},
        {PICKLE(DICTIONARY "X\1\0\0\0\377K\1u."), "not valid UTF-8"},
        {PICKLE(DICTIONARY "X\2\0\0\0w\0K\1u."), "not valid UTF-8, or contains U+0000"},
        {PICKLE(DICTIONARY REBUILD STORAGE "J\377\377\377\377K\6\x85K\1\x85\x89}tRu."), "offset is negative"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0K\6\x85)\x89}tRu."), "shape and stride differ in rank"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0J\377\377\377\377\x85K\1\x85\x89}tRu."), "not numbers of 0 or more"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0K\6\x85J\377\377\377\377\x85\x89}tRu."), "not numbers of 0 or more"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0\x8a\1\200\x85K\1\x85\x89}tRu."), "not numbers of 0 or more"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0}\x85K\1\x85\x89}tRu."), "not numbers of 0 or more"},
        {PICKLE(DICTIONARY REBUILD STORAGE "K\0(K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1t\x89}tRu."),
         "7 dimensions exceed the limit of 6"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        byte_buffer pickle = EITP__ZERO, archive;
        eitp_error error;
        eitp_status status;
        bytes_add(&pickle, cases[i].pickle, cases[i].size);
        archive = make_archive(&pickle, 0);
        CHECK_THAT(!open_bytes(archive.data, archive.size, &status, &error), "%s", cases[i].message);
        CHECK_THAT(!strncmp(error.message, "weights.bin: byte ", 18) && strstr(error.message, cases[i].message),
                   "expected \"%s\": %s", cases[i].message, error.message);
        free(pickle.data);
        free(archive.data);
    }
}

static void refuses_other_tensors(void) {
    static const struct {
        const char *type, *key;
        int64_t storage_count, offset;
        int rank;
        int64_t shape[3], stride[3];
        const char *message;
    } cases[] = {
        {"FloatStorage", "7", 6, 0, 1, {6}, {1}, "storage '7' is missing in the archive"},
        {"FloatStorage", "", 6, 0, 1, {6}, {1}, "storage '' is missing in the archive"},
        {"FloatStorage", "0", 7, 0, 1, {6}, {1}, "storage '0' has 24 bytes, expected 7 elements of 4"},
        {"FloatStorage", "0", 5, 0, 1, {5}, {1}, "storage '0' has 24 bytes, expected 5 elements of 4"},
        {"HalfStorage", "0", 6, 0, 1, {6}, {1}, "expected 6 elements of 2"},
        {"FloatStorage", "0", INT64_MAX, 0, 1, {6}, {1}, "expected 9223372036854775807 elements of 4"},
        {"FloatStorage", "0", (int64_t)1 << 62 | 6, 0, 1, {6}, {1}, "expected 4611686018427387910 elements of 4"},
        {"FloatStorage", "0", 6, 1, 1, {6}, {1}, "does not fit storage '0' of 6 elements, from element 1 on"},
        {"FloatStorage", "0", 6, 7, 1, {0}, {1}, "does not fit storage '0'"},
        {"FloatStorage", "0", 6, INT64_MAX, 1, {6}, {1}, "does not fit storage '0'"},
        {"FloatStorage", "0", 6, 0, 1, {7}, {1}, "does not fit storage '0'"},
        {"FloatStorage", "0", 6, 0, 2, {(int64_t)1 << 32, (int64_t)1 << 32}, {1, 1}, "does not fit storage '0'"},
        {"FloatStorage", "0", 6, 0, 3, {INT64_MAX, 2, 0}, {1, 1, 1}, "does not fit storage '0'"},
        {"FloatStorage", "0", 6, 0, 1, {6}, {0}, "its strides do not match"},
        {"FloatStorage", "0", 6, 0, 1, {3}, {2}, "its strides do not match"},
        {"FloatStorage", "0", 6, 0, 2, {2, 2}, {3, 1}, "its strides do not match"},
        {"FloatStorage", "0", 6, 0, 2, {3, 2}, {1, INT64_MAX}, "its strides do not match"},
        {"FloatStorage", "0", 6, 0, 3, {1, 3, 2}, {6, 1, 3}, "its strides do not match"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        byte_buffer pickle = EITP__ZERO, archive;
        eitp_error error;
        eitp_status status;
        pickle_begin(&pickle);
        pickle_tensor(&pickle, "w", cases[i].type, cases[i].key, cases[i].storage_count, cases[i].offset, cases[i].rank,
                      cases[i].shape, cases[i].stride);
        pickle_end(&pickle);
        archive = make_archive(&pickle, 0);
        CHECK_THAT(!open_bytes(archive.data, archive.size, &status, &error), "%s", cases[i].message);
        CHECK_THAT(strstr(error.message, "weights.bin: byte ") && strstr(error.message, "tensor 'w': ") &&
                       strstr(error.message, cases[i].message),
                   "expected \"%s\": %s", cases[i].message, error.message);
        free(pickle.data);
        free(archive.data);
    }
}

static void refuses_a_name_that_occurs_twice(void) {
    static const int64_t shape = 6, stride = 1;
    byte_buffer pickle = EITP__ZERO, archive;
    eitp_error error;
    eitp_status status;
    pickle_begin(&pickle);
    for (int i = 0; i < 2; i++)
        pickle_tensor(&pickle, "w", "FloatStorage", "0", 6, 0, 1, &shape, &stride);
    pickle_end(&pickle);
    archive = make_archive(&pickle, 0);
    CHECK(!open_bytes(archive.data, archive.size, &status, &error) && status == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error.message, "weights.bin: duplicate tensor 'w'"), "%s", error.message);
    free(pickle.data);
    free(archive.data);
}

/* Returns the peak memory for opening a file with this pickle, in multiples of the file's size. Opening must fail
   with the message. */
static double needed_memory(const byte_buffer *pickle, const char *message) {
    byte_buffer archive = make_archive(pickle, 0);
    eitp__safetensors *collection = NULL;
    eitp_error error;
    faults f;
    put("hostile", archive.data, archive.size);
    faults_begin(&f);
    CHECK(eitp__pytorch_open(&f.host, in("hostile"), &collection, &error) && !collection);
    CHECK_THAT(strstr(error.message, message), "expected \"%s\": %s", message, error.message);
    faults_end(&f);
    free(archive.data);
    return (double)f.peak_bytes / (double)archive.size;
}

/* Returns a pickle of `begin` followed by repetitions of `codes`, of at most `limit` bytes. */
static byte_buffer repeat(const char *begin, size_t begin_size, const char *codes, size_t size, size_t limit) {
    byte_buffer pickle = EITP__ZERO;
    bytes_add(&pickle, begin, begin_size);
    while (pickle.size + size <= limit)
        bytes_add(&pickle, codes, size);
    return pickle;
}

static void memory_is_limited(void) {
    static const struct {
        const char *begin;
        size_t begin_size;
        const char *codes;
        size_t size;
        const char *message;
    } cases[] = {
        {PICKLE("\x80\x02"), PICKLE("("), "more than 65536 values are on the stack"},
        {PICKLE("\x80\x02}"), PICKLE("K\1K\1s"), "a tensor whose name is not a string"},
        {PICKLE("\x80\x02}" REBUILD STORAGE "K\0K\6\x85K\1\x85\x89}tRq\0s"), PICKLE("X\1\0\0\0wh\0s"), "ends without"},
        {PICKLE("\x80\x02}X\1\0\0\0wq\0" CALL STORAGE "K\0K\6\x85K\1\x85\x89}tRq\1s"), PICKLE("h\0h\1s"),
         "a tensor's name occurs twice"},
        {PICKLE("\x80\x02})q\0"), PICKLE("r\0\0\0\0"), "ends without"},
        {PICKLE("\x80\x02}K\1"), PICKLE("\x85"), "ends without"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        byte_buffer pickle = repeat(cases[i].begin, cases[i].begin_size, cases[i].codes, cases[i].size, 200000);
        const double memory = needed_memory(&pickle, cases[i].message);
        CHECK_THAT(memory < 40, "%s: %g", cases[i].message, memory);
        free(pickle.data);
    }
    byte_buffer pickle = repeat("\x80\x02", 2, "(", 1, EITP__PICKLE_MAX_SIZE + 1);
    CHECK(needed_memory(&pickle, "; the limit is 4194304") < 1);
    free(pickle.data);
}

/* ---- Archives ---- */

/* Returns the offset of the central header of an entry, or of the end record ("PK\5\6"), in an archive. */
static size_t find_record(const byte_buffer *archive, const char *signature, const char *name) {
    for (size_t i = 0; i + 46 < archive->size + 25; i++) {
        if (!memcmp(archive->data + i, signature, 4) && (!name || !memcmp(archive->data + i + 46, name, strlen(name))))
            return i;
    }
    CHECK_THAT(0, "no %s", name ? name : "record");
    return 0;
}

static void refuses_invalid_archives(void) {
    static const struct {
        const char *signature, *name;
        size_t at, size;
        uint64_t value;
        const char *message;
    } cases[] = {
        {"PK\1\2", "m/data.pkl", 10, 2, 8, "the archive is compressed or encrypted, which is not supported; run this"},
        {"PK\1\2", "m/data.pkl", 8, 2, 1, "the archive is compressed or encrypted"},
        {"PK\1\2", "m/data/0", 10, 2, 8, "tensor 'b.weight': the archive is compressed or encrypted"},
        {"PK\1\2", "m/data/0", 20, 4, 25, "25 bytes are stored for an entry of 24"},
        {"PK\1\2", "m/data/0", 24, 4, 1, "24 bytes are stored for an entry of 1"},
        {"PK\1\2", "m/data/0", 24, 4, UINT32_MAX, "the entry is cut off"},
        {"PK\1\2", "m/data/0", 28, 2, 65535, "the entry is cut off"},
        {"PK\1\2", "m/data/0", 30, 2, 65535, "the entry is cut off"},
        {"PK\1\2", "m/data/0", 30, 2, 3, "does not start an entry"},
        {"PK\1\2", "m/data/0", 32, 2, 65535, "the entry is cut off"},
        {"PK\1\2", "m/data/0", 20, 8, (uint64_t)25 << 32 | 25, "(25 bytes at "},
        {"PK\1\2", "m/data/2", 20, 8, (uint64_t)1 << 32 | 1, "does not fit its place in the zip archive"},
        {"PK\1\2", "m/data/0", 42, 4, 0xfffffff0, "does not fit its place in the zip archive"},
        {"PK\1\2", "m/data/0", 42, 4, 0, "does not fit its place in the zip archive"},
        {"PK\1\2", "m/data/0", 42, 4, 1, "does not fit its place in the zip archive"},
        {"PK\1\2", "m/data/0", 46, 1, 'n', "storage '0' is missing"},
        {"PK\1\2", "m/data/0", 53, 1, '1', "two entries 'm/data/1'"},
        {"PK\1\2", "m/data.pkl", 46, 1, '/', "has no data.pkl"},
        {"PK\1\2", "m/data.pkl", 0, 1, 'Q', "byte 0 of the zip directory does not start an entry"},
        {"PK\3\4", NULL, 26, 2, 65535, "does not fit its place in the zip archive"},
        {"PK\5\6", NULL, 0, 1, 'Q', "the end of the zip archive is missing"},
        {"PK\5\6", NULL, 10, 2, 4, "the zip directory has 54 bytes after its 4 entries"},
        {"PK\5\6", NULL, 10, 2, 60, "does not fit the file"},
        {"PK\5\6", NULL, 10, 2, 65535, "no valid zip64 record"},
        {"PK\5\6", NULL, 12, 4, 0x7fffffff, "does not fit the file"},
        {"PK\5\6", NULL, 16, 4, 0x7fffffff, "does not fit the file"},
        {"PK\5\6", NULL, 16, 4, UINT32_MAX, "no valid zip64 record"},
    };
    byte_buffer pickle = make_pickle();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        byte_buffer archive = make_archive(&pickle, 0);
        eitp_error error;
        eitp_status status;
        eitp__put_number(archive.data + find_record(&archive, cases[i].signature, cases[i].name) + cases[i].at,
                         cases[i].size, cases[i].value);
        CHECK_THAT(!open_bytes(archive.data, archive.size, &status, &error), "%s", cases[i].message);
        CHECK_THAT(strstr(error.message, "weights.bin") && strstr(error.message, cases[i].message),
                   "expected \"%s\": %s", cases[i].message, error.message);
        free(archive.data);
    }
    free(pickle.data);
}

static void refuses_invalid_zip64_records(void) {
    static const struct {
        const char *signature;
        size_t at;
        uint64_t value;
        const char *message;
    } cases[] = {
        {"PK\6\7", 0, 0, "no valid zip64 record"},
        {"PK\6\7", 8, UINT64_MAX, "no valid zip64 record"},
        {"PK\6\7", 8, 0, "no valid zip64 record"},
        {"PK\6\6", 0, 0, "no valid zip64 record"},
        {"PK\6\6", 32, UINT64_MAX, "does not fit the file"},
        {"PK\6\6", 40, UINT64_MAX, "does not fit the file"},
        {"PK\6\6", 48, UINT64_MAX, "does not fit the file"},
        {"PK\1\2", 46 + 10 + 9, 1, "are stored for an entry of 1"},
        {"PK\1\2", 46 + 10 + 9 + 8, UINT64_MAX, "are stored for an entry of"},
        {"PK\1\2", 46 + 10 + 9 + 16, UINT64_MAX, "does not fit its place"},
    };
    byte_buffer pickle = make_pickle();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        byte_buffer archive = make_archive(&pickle, 1);
        eitp_error error;
        eitp_status status;
        eitp__put_number(archive.data + find_record(&archive, cases[i].signature, NULL) + cases[i].at, 8,
                         cases[i].value);
        CHECK_THAT(!open_bytes(archive.data, archive.size, &status, &error), "%s", cases[i].message);
        CHECK_THAT(strstr(error.message, cases[i].message), "expected \"%s\": %s", cases[i].message, error.message);
        free(archive.data);
    }
    free(pickle.data);
}

/* Files in other formats, and big-endian files, are identified. */
static void refuses_other_formats(void) {
    static const struct {
        const char *text;
        size_t size;
        const char *message;
    } cases[] = {
        {PICKLE("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
         "weights.bin: this is the format of torch before 1.6, which is not supported; run this in its directory: "
         "python3 -c \"import os, torch; f = 'weights.bin'; torch.save(torch.load(f, weights_only=True), f + '.tmp'); "
         "os.replace(f + '.tmp', "
         "f)\""},
        {PICKLE("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"},
        {PICKLE("<html>"), "not a file of torch.save"},
        {PICKLE(""), "not a file of torch.save"},
        {PICKLE("PK\3\4"), "the end of the zip archive is missing"},
    };
    static const struct {
        const char *order, *message;
    } orders[] = {{"big", "big-endian, which is not supported"}, {"lit", "must be little or big"}, {"", "must be"}};
    byte_buffer pickle = make_pickle();
    eitp_error error;
    eitp_status status;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK(!open_bytes(cases[i].text, cases[i].size, &status, &error));
        CHECK_THAT(strstr(error.message, cases[i].message), "expected \"%s\": %s", cases[i].message, error.message);
    }
    /* File names in an untrusted index must not become part of a command. */
    CHECK(!open_named("a'; import os #.bin", cases[0].text, cases[0].size, &status, &error));
    CHECK_THAT(strstr(error.message, "f = 'FILE'; torch.save"), "%s", error.message);
    for (size_t i = 0; i < EITP__COUNT(orders); i++) {
        byte_buffer archive = EITP__ZERO;
        zip_writer zip;
        zip_begin(&zip, &archive);
        zip_add(&zip, "m/data.pkl", pickle.data, pickle.size);
        zip_add(&zip, "m/byteorder", orders[i].order, strlen(orders[i].order));
        zip_end(&zip);
        CHECK(!open_bytes(archive.data, archive.size, &status, &error));
        CHECK_THAT(strstr(error.message, orders[i].message), "%s", error.message);
        free(archive.data);
    }
    free(pickle.data);
}

/* A file truncated at any point is refused. A file with any byte changed is refused or still consistent. */
static void damaged_files_are_survived(void) {
    static char bytes[8192];
    const size_t size = read_bytes(GOLDEN "pytorch/tensors.bin", bytes, sizeof bytes);
    size_t refused = 0;
    eitp_error error;
    eitp_status status;
    float values[40];
    REQUIRE(size > 4000 && size < sizeof bytes);
    for (size_t cut = 0; cut < size; cut++)
        CHECK_THAT(!open_bytes(bytes, cut, &status, &error), "cut to %zu bytes", cut);
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            eitp__safetensors *collection = open_bytes(bytes, size, &status, &error);
            refused += !collection;
            for (size_t k = 0; collection && k < eitp__safetensors_count(collection); k++) {
                const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, k);
                CHECK(entry->offset + entry->size <= size && entry->count <= 40);
                if (entry->dtype == EITP_F32)
                    CHECK(!eitp__safetensors_read(collection, entry, 0, entry->count, values, NULL, &error));
            }
            eitp__safetensors_close(collection);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
        }
    }
    CHECK_THAT(refused > size, "%zu", refused);
}

/* ---- Failing calls ---- */

static void opening_fails_cleanly(void) {
    static const char index_text[] =
        "{\"metadata\": {}, \"weight_map\": {\"a\": \"one.bin\", \"parameter\": \"two.bin\"}}";
    static char bytes[8192];
    size_t size = read_bytes(GOLDEN "pytorch/small.bin", bytes, sizeof bytes);
    int failures = 0;
    put("one.bin", bytes, size);
    size = read_bytes(GOLDEN "pytorch/tensors.bin", bytes, sizeof bytes);
    put("two.bin", bytes, size);
    put("index", index_text, sizeof index_text - 1);
    for (int kind = 0; kind < 3; kind++) {
        int more = 1;
        for (long n = 1; more; n++) {
            eitp__safetensors *collection = NULL;
            eitp_error error;
            faults f;
            faults_begin(&f);
            f.fail_allocation = kind == 0 ? n : 0;
            f.fail_file_call = kind == 0 ? 0 : n;
            f.all_file_calls = kind == 2;
            eitp_status status = eitp__pytorch_open_index(&f.host, in("index"), &collection, &error);
            CHECK_THAT(status == EITP_OK || status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%s", error.message);
            CHECK((status == EITP_OK) == (collection != NULL));
            CHECK(status || eitp__safetensors_count(collection) == 2);
            eitp__safetensors_close(collection);
            more = faults_end(&f);
            failures += status != EITP_OK;
        }
    }
    CHECK_THAT(failures > 100, "%d", failures);
}

/* ---- Models ---- */

static void copy(const char *from, const char *folder, const char *name) {
    static char bytes[262144];
    char path[600];
    const size_t size = read_bytes(from, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_THAT(size, "%s", from);
    put(path, bytes, size);
}

static void make_folder(const char *name, const char *golden) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    char path[300];
    CHECK(!eitp__make_directories(&host, in(name), &error));
    snprintf(path, sizeof path, GOLDEN "%s/config.json", golden);
    copy(path, name, "config.json");
}

static eitp_context *open_context(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error;
    config.threads = 1;
    CHECK(!eitp_context_create(&config, &context, &error));
    return context;
}

/* Checks that the models in two directories have the same configuration and bits. */
static void check_same_models(const char *expected, const char *found) {
    const char *const names[2] = {expected, found};
    eitp_context *contexts[2] = {open_context(), open_context()};
    eitp_model *models[2] = {NULL, NULL};
    eitp_error error;
    for (int i = 0; i < 2; i++)
        CHECK_THAT(!eitp_model_load(contexts[i], names[i], &models[i], &error), "%s", error.message);
    if (models[0] && models[1]) {
        const size_t count = eitp_variable_count(contexts[0]);
        CHECK(count > 10 && eitp_variable_count(contexts[1]) == count);
        for (size_t i = 0; i < count; i++) {
            const eitp_variable variable = eitp_variable_at(contexts[0], i);
            char *values[2] = {(char *)malloc(variable.size), (char *)malloc(variable.size)};
            for (int k = 0; k < 2; k++)
                CHECK(!eitp_variable_read(contexts[k], variable.name, 0, values[k], variable.size, &error));
            CHECK_THAT(!memcmp(values[0], values[1], variable.size), "%s", variable.name);
            free(values[0]);
            free(values[1]);
        }
    }
    for (int i = 0; i < 2; i++) {
        eitp_model_destroy(models[i]);
        eitp_context_destroy(contexts[i]);
    }
}

static void models_of_torch_open(void) {
    eitp_context *context = open_context();
    eitp_transformer_config config;
    eitp_model *model = NULL;
    eitp_error error;
    const eitp_host host = eitp_host_default();
    make_folder("whole", "bert/bert-class");
    CHECK(eitp_model_load(context, in("whole"), &model, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "whole' has no weights: no model.safetensors, no pytorch_model.bin, and no index"),
               "%s", error.message);
    copy(GOLDEN "pytorch/bert-class.bin", "whole", "pytorch_model.bin");
    check_same_models(GOLDEN "bert/bert-class", in("whole"));

    /* A safetensors file takes precedence. */
    put("whole/pytorch_model.bin", "damaged", 7);
    CHECK(eitp_model_load(context, in("whole"), &model, &error) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error.message, "whole/pytorch_model.bin: not a file of torch.save"), "%s", error.message);
    copy(GOLDEN "bert/bert-class/model.safetensors", "whole", "model.safetensors");
    check_same_models(GOLDEN "bert/bert-class", in("whole"));
    CHECK(!eitp_model_config_read(&host, in("whole"), &config, &error));
    eitp_context_destroy(context);
}

/* Writes tensors of a safetensors file like torch.save: those whose number is `part` modulo `parts`. */
static void write_part(const eitp__safetensors *collection, const char *name, size_t part, size_t parts) {
    byte_buffer pickle = EITP__ZERO, archive = EITP__ZERO;
    zip_writer zip;
    eitp_error error;
    char key[40];
    zip_begin(&zip, &archive);
    pickle_begin(&pickle);
    for (size_t i = part; i < eitp__safetensors_count(collection); i += parts) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        int64_t stride[EITP_MAX_RANK], length = 1;
        float *values = (float *)malloc(entry->size);
        for (int d = entry->rank; d-- > 0; length *= entry->shape[d])
            stride[d] = length;
        CHECK(!eitp__safetensors_read_f32(collection, entry, 0, entry->count, values, NULL, &error));
        snprintf(key, sizeof key, "pytorch_model/data/%zu", i);
        zip_add(&zip, key, values, entry->size);
        pickle_tensor(&pickle, entry->name, "FloatStorage", strrchr(key, '/') + 1, entry->count, 0, entry->rank,
                      entry->shape, stride);
        free(values);
    }
    pickle_end(&pickle);
    zip_add(&zip, "pytorch_model/data.pkl", pickle.data, pickle.size);
    zip_end(&zip);
    put(name, archive.data, archive.size);
    free(pickle.data);
    free(archive.data);
}

/* A directory with several files, for a model whose matrices the architecture transposes and divides. */
static void models_in_several_files_open(void) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *collection = NULL;
    eitp__buffer index;
    eitp_error error;
    REQUIRE_OK(eitp__safetensors_open(&host, GOLDEN "gpt2/untied/model.safetensors", &collection, &error), error);
    make_folder("several", "gpt2/untied");
    write_part(collection, "several/pytorch_model-00001-of-00002.bin", 0, 2);
    write_part(collection, "several/pytorch_model-00002-of-00002.bin", 1, 2);
    eitp__buffer_init(&index, &host);
    for (size_t i = 0; i < eitp__safetensors_count(collection); i++)
        eitp__buffer_format(&index, "%s\"%s\": \"pytorch_model-0000%d-of-00002.bin\"",
                            i ? ", " : "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {",
                            eitp__safetensors_at(collection, i)->name, (int)(i % 2 + 1));
    eitp__buffer_add_text(&index, "}}");
    put("several/pytorch_model.bin.index.json", index.data, index.size);
    check_same_models(GOLDEN "gpt2/untied", in("several"));
    eitp__buffer_release(&index);
    make_folder("alone", "gpt2/untied");
    write_part(collection, "alone/pytorch_model.bin", 0, 1);
    check_same_models(GOLDEN "gpt2/untied", in("alone"));
    eitp__safetensors_close(collection);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(reads_what_torch_writes), TEST(ranges_of_transposed_matrices), TEST(reads_zip64),
        TEST(refuses_other_pickles),   TEST(refuses_other_tensors),         TEST(refuses_a_name_that_occurs_twice),
        TEST(memory_is_limited),       TEST(refuses_invalid_archives),      TEST(refuses_invalid_zip64_records),
        TEST(refuses_other_formats),   TEST(damaged_files_are_survived),    TEST(opening_fails_cleanly),
        TEST(models_of_torch_open),    TEST(models_in_several_files_open),
    };
    int result;
    if (!scratch_make(directory))
        return 1;
    result = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return result;
}

/* Fuzzes labelled files: each is opened, read and split, or refused. */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_IDS = 4096, MOST_LABELS = 64, MOST_SAMPLES = 64 };

static void require(int condition) {
    if (!condition)
        abort();
}

/* Reads samples of a source and checks what they promise. */
static void use_source(const eitp_labelled_source *source, int32_t vocabulary_size) {
    static int32_t ids[MOST_IDS], segments[MOST_IDS], labels[MOST_IDS];
    float targets[MOST_LABELS];
    const int reads_targets = source->label_count <= MOST_LABELS, reads_ids = source->max_length <= MOST_IDS;
    for (int64_t i = 0; i < source->label_count && source->labels; i++)
        require(strlen(source->labels[i]) < SIZE_MAX);
    for (uint64_t i = 0; i < source->count && i < MOST_SAMPLES; i++) {
        eitp_labelled_sample sample = EITP__ZERO;
        sample.ids = reads_ids ? ids : NULL;
        sample.segments = reads_ids ? segments : NULL;
        sample.targets = reads_targets ? targets : NULL;
        sample.token_labels = reads_ids ? labels : NULL;
        if (source->read(source->user, i, &sample, NULL) != EITP_OK)
            continue;
        require(sample.length >= 1 && sample.length <= source->max_length);
        require(sample.label >= -1 && sample.label < (source->label_count ? source->label_count : 1));
        require((sample.label >= 0) == (source->problem == EITP_PROBLEM_SINGLE_LABEL));
        for (int64_t k = 0; k < sample.length && reads_ids; k++)
            require(ids[k] >= 0 && (!vocabulary_size || ids[k] < vocabulary_size) && (segments[k] & ~1) == 0);
        for (int64_t k = 0; k < sample.length && reads_ids && source->problem == EITP_PROBLEM_TOKENS; k++)
            require(labels[k] >= -1 && labels[k] < source->label_count);
        for (int64_t k = 0; k < source->label_count && reads_targets && source->problem == EITP_PROBLEM_REGRESSION; k++)
            require(isfinite(targets[k]));
    }
    require(source->read(source->user, source->count, NULL, NULL) == EITP_ERROR_ARGUMENT);
}

static void use_file(const eitp_labelled_file *file, int32_t vocabulary_size) {
    const eitp_labelled_info info = eitp_labelled_file_get_info(file);
    const eitp_labelled_source all = eitp_labelled_file_source(file);
    eitp_labelled_part *training = NULL, *validation = NULL;
    uint64_t overlap = 0;
    require(info.sample_count > 0 && info.id_count >= info.sample_count &&
            (info.label_count > 0) == (info.problem > 0));
    use_source(&all, vocabulary_size);
    eitp_labelled_file_verify(file, NULL);
    if (eitp_labelled_split(file, 0.3, 1, &training, &validation, NULL) == EITP_OK) {
        const eitp_labelled_source part = eitp_labelled_part_source(validation);
        require(training && validation && part.count + eitp_labelled_part_source(training).count == all.count);
        use_source(&part, vocabulary_size);
        require(eitp_labelled_overlap(training, validation, &overlap, NULL) == EITP_OK && overlap <= part.count);
    }
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
}

static void open_bytes(const uint8_t *data, size_t size, int32_t vocabulary_size) {
    one_file one = {data, size};
    const eitp_host host = one_file_host(&one);
    eitp_labelled_file *file = NULL;
    eitp_error error;
    if (eitp_labelled_file_open(&host, "fuzz", vocabulary_size, &file, &error) == EITP_OK)
        use_file(file, vocabulary_size);
    else
        require(!file && strlen(error.message) > 10);
    eitp_labelled_file_close(file);
}

static void put(uint8_t *bytes, size_t size, uint64_t value) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Gives the header and what follows the ids valid checksums, to reach the checks after them. */
static void seal(uint8_t *bytes, size_t size) {
    eitp__labelled_layout layout = EITP__ZERO;
    uint64_t records;
    for (int turn = 0; turn < 2; turn++) {
        put(bytes + EITP__LABELLED_HEADER_SIZE - 4, 4, eitp__crc32c(0, bytes, EITP__LABELLED_HEADER_SIZE - 4));
        if (eitp__labelled_header_read(bytes, EITP__LABELLED_HEADER_SIZE, size, &layout, NULL) != EITP_OK)
            return;
        records = layout.records;
        put(bytes + 56, 8, eitp__fnv1a(EITP__FNV_START, bytes + records, size - (size_t)records));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    open_bytes(data, size, 0);
    open_bytes(data, size, 100);
    if (size >= EITP__LABELLED_HEADER_SIZE) {
        uint8_t *sealed = (uint8_t *)malloc(size);
        require(sealed != NULL);
        memcpy(sealed, data, size);
        seal(sealed, size);
        open_bytes(sealed, size, 0);
        free(sealed);
    }
    return 0;
}

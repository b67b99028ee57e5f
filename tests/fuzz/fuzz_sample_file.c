/* Fuzzes sample files of every kind: each is opened, cut into windows, read and split, or refused. */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_IDS = 4096, MOST_LABELS = 64, MOST_SAMPLES = 64 };

static void require(int condition) {
    if (!condition)
        abort();
}

/* Checks that ids are below the vocabulary of the caller or of their segment, and that both sequences of a sample have
   some. */
static void check_ids(const eitp_labelled_sample *sample, const eitp_sample_file_info *info, int32_t vocabulary_size) {
    int64_t counts[2] = EITP__ZERO;
    for (int64_t k = 0; k < sample->length; k++) {
        const int32_t id = sample->ids[k], segment = sample->segments[k];
        const int is_second = segment && info->second_vocabulary;
        require((segment & ~1) == 0 && id >= 0 && (k == 0 || segment >= sample->segments[k - 1]));
        require(id < (is_second ? info->second_vocabulary : info->vocabulary_size));
        require(is_second || !vocabulary_size || id < vocabulary_size);
        counts[segment]++;
    }
    require(!info->second_vocabulary ||
            (counts[0] && counts[0] <= info->max_first && counts[1] && counts[1] <= info->max_second));
}

/* Reads samples of a source and checks what they guarantee. */
static void use_source(const eitp_labelled_source *source, const eitp_sample_file_info *info, int32_t vocabulary_size) {
    static int32_t ids[MOST_IDS], segments[MOST_IDS], labels[MOST_IDS];
    static float weights[MOST_IDS];
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
        sample.token_weights = reads_ids ? weights : NULL;
        if (source->read(source->user, i, &sample, NULL) != EITP_OK)
            continue;
        require(sample.length >= 1 && sample.length <= source->max_length);
        require(sample.label >= -1 && sample.label < (source->label_count ? source->label_count : 1));
        require((sample.label >= 0) == (source->problem == EITP_PROBLEM_SINGLE_LABEL));
        if (reads_ids)
            check_ids(&sample, info, vocabulary_size);
        require(sample.weight >= 0 && isfinite(sample.weight));
        for (int64_t k = 0; k < sample.length && reads_ids; k++)
            require(weights[k] >= 0 && isfinite(weights[k]));
        for (int64_t k = 0; k < sample.length && reads_ids && source->problem == EITP_PROBLEM_TOKENS; k++)
            require(labels[k] >= -1 && labels[k] < source->label_count);
        for (int64_t k = 0; k < source->label_count && reads_targets && source->problem == EITP_PROBLEM_REGRESSION; k++)
            require(isfinite(targets[k]));
    }
    require(source->read(source->user, source->count, NULL, NULL) == EITP_ERROR_ARGUMENT);
}

/* Reads windows of tokens, which files of every kind have. */
static void use_tokens(const eitp_sample_file *file, int32_t vocabulary_size) {
    const uint64_t count = eitp_sample_file_get_info(file).token_count;
    eitp_token_range training, validation;
    eitp_token_source source;
    eitp__windows windows;
    int32_t tokens[16], targets[16];
    require(eitp_sample_file_read_tokens(file, count, 1, tokens, NULL) == EITP_ERROR_ARGUMENT);
    if (eitp_split_tokens(count, 0.25, 16, &training, &validation, NULL) != EITP_OK)
        return;
    source = eitp_sample_file_token_source(file, validation);
    require(eitp__windows_init(&windows, &source, 16, NULL) == EITP_OK);
    for (uint64_t window = 0; window < 8 && window < windows.count; window++) {
        if (eitp__windows_read(&windows, window, tokens, targets, NULL) != EITP_OK)
            continue;
        for (int i = 0; i < 16; i++)
            require(tokens[i] >= 0 && (!vocabulary_size || tokens[i] < vocabulary_size));
    }
}

static void use_samples(const eitp_sample_file *file, int32_t vocabulary_size) {
    const eitp_labelled_source all = eitp_sample_file_labelled_source(file);
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    eitp_labelled_part *training = NULL, *validation = NULL;
    uint64_t overlap = 0;
    use_source(&all, &info, vocabulary_size);
    if (eitp_labelled_split(file, 0.3, 1, &training, &validation, NULL) == EITP_OK) {
        const eitp_labelled_source part = eitp_labelled_part_source(validation);
        require(training && validation && part.count + eitp_labelled_part_source(training).count == all.count);
        use_source(&part, &info, vocabulary_size);
        require(eitp__labelled_overlap(training, validation, &overlap, NULL) == EITP_OK && overlap <= part.count);
    }
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
}

static void use_file(const eitp_sample_file *file, int32_t vocabulary_size) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    require(info.token_count > 0 && info.token_count >= info.sample_count);
    require(info.element_size == 2 || info.element_size == 4);
    require((info.label_count > 0) == (info.problem > 0));
    require((info.sample_count > 0) == (info.kind == EITP_SAMPLE_FILE_LABELLED));
    require(!info.second_vocabulary == !info.second_fingerprint && !info.second_vocabulary == !info.max_second);
    eitp_sample_file_verify(file, NULL);
    use_tokens(file, vocabulary_size);
    if (info.sample_count)
        use_samples(file, vocabulary_size);
    else
        require(!eitp_sample_file_labelled_source(file).read);
}

static void open_bytes(const uint8_t *data, size_t size, int32_t vocabulary_size) {
    one_file one = {data, size};
    const eitp_host host = one_file_host(&one);
    eitp_sample_file *file = NULL;
    eitp_error error;
    if (eitp_sample_file_open(&host, "fuzz", vocabulary_size, &file, &error) == EITP_OK)
        use_file(file, vocabulary_size);
    else
        require(!file && strlen(error.message) > 10);
    eitp_sample_file_close(file);
}

static void put(uint8_t *bytes, size_t size, uint64_t value) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Sets valid checksums of the header and of the data after the samples' ids, to reach the checks behind them. */
static void seal(uint8_t *bytes, size_t size) {
    eitp__sample_layout layout = EITP__ZERO;
    for (int turn = 0; turn < 2; turn++) {
        put(bytes + EITP__SAMPLE_HEADER_SIZE - 4, 4, eitp__crc32c(0, bytes, EITP__SAMPLE_HEADER_SIZE - 4));
        if (eitp__sample_header_read(bytes, EITP__SAMPLE_HEADER_SIZE, size, &layout, NULL) != EITP_OK ||
            !layout.info.sample_count)
            return;
        put(bytes + 56, 8, eitp__fnv1a(EITP__FNV_START, bytes + layout.records, size - (size_t)layout.records));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    open_bytes(data, size, 0);
    open_bytes(data, size, 100);
    if (size >= EITP__SAMPLE_HEADER_SIZE) {
        uint8_t *sealed = (uint8_t *)malloc(size);
        require(sealed != NULL);
        memcpy(sealed, data, size);
        seal(sealed, size);
        open_bytes(sealed, size, 0);
        free(sealed);
    }
    return 0;
}

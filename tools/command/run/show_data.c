#include "run/show_data.h"

#include "files.h"
#include "output.h"

typedef struct data_shown {
    const eitp_tokenizer *tokenizer; /* NULL: unknown */
    int has_marks;                   /* only tokens with a label are trained on */
    int64_t samples;                 /* in the file */
} data_shown;

/* Prints a token. `weight` is negative if it is not trained on. */
static void show_token(const data_shown *shown, int64_t number, int32_t id, double weight, text_buffer *t) {
    const char *bytes = "";
    size_t size = 0;
    text_format(t, "%c %6lld %8d  ", weight >= 0 ? '*' : ' ', (long long)number, (int)id);
    if (shown->tokenizer && !eitp_tokenizer_token(shown->tokenizer, id, &bytes, &size, NULL))
        text_json_string(t, bytes, size);
    if (weight >= 0 && (weight < 1 || weight > 1))
        text_format(t, "  weight %g", weight);
    text_format(t, "\n");
}

static void show_sample(const data_shown *shown, int64_t number, const int32_t *ids, const int32_t *labels,
                        const float *weights, int64_t count) {
    text_buffer t = {NULL, 0, 0};
    int64_t trained = 0;
    for (int64_t i = 0; i < count && shown->has_marks; i++)
        trained += labels[i] >= 0;
    text_format(&t, "sample %lld of %lld: %lld tokens", (long long)number + 1, (long long)shown->samples,
                (long long)count);
    if (shown->has_marks)
        text_format(&t, ", %lld of them (*) trained on", (long long)trained);
    text_format(&t, "\n");
    for (int64_t i = 0; i < count; i++)
        show_token(shown, i, ids[i], shown->has_marks && labels[i] >= 0 ? (double)weights[i] : -1, &t);
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status show_labelled(data_shown *shown, const eitp_sample_file *file, int64_t count, eitp_error *error) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    const size_t bytes = (size_t)info.max_length * sizeof(int32_t);
    int32_t *ids = (int32_t *)command_allocate(bytes), *labels = (int32_t *)command_allocate(bytes);
    float *weights = (float *)command_allocate((size_t)info.max_length * sizeof *weights);
    eitp_status status = EITP_OK;
    shown->has_marks = info.problem == EITP_PROBLEM_TOKENS;
    shown->samples = (int64_t)info.sample_count;
    for (int64_t i = 0; i < count && i < shown->samples && !status; i++) {
        eitp_labelled_sample sample;
        memset(&sample, 0, sizeof sample);
        sample.ids = ids;
        sample.token_labels = shown->has_marks ? labels : NULL;
        sample.token_weights = weights;
        status = eitp_sample_file_read_sample(file, (uint64_t)i, &sample, error);
        if (!status)
            show_sample(shown, i, ids, labels, weights, sample.length);
    }
    free(weights);
    free(ids);
    free(labels);
    return status;
}

/* Prints windows of tokens, all of which are trained on. */
static eitp_status show_windows(data_shown *shown, const eitp_sample_file *file, eitp_token_range range,
                                int64_t block_size, int64_t count, eitp_error *error) {
    int32_t *ids = (int32_t *)command_allocate((size_t)block_size * sizeof *ids);
    eitp_status status = EITP_OK;
    shown->samples = range.count ? (int64_t)((range.count - 1) / (uint64_t)block_size) : 0;
    for (int64_t i = 0; i < count && i < shown->samples && !status; i++) {
        status = eitp_sample_file_read_tokens(file, range.first + (uint64_t)(i * block_size), (uint64_t)block_size, ids,
                                              error);
        if (!status)
            show_sample(shown, i, ids, NULL, NULL, block_size);
    }
    free(ids);
    return status;
}

eitp_status show_data(training_run *r, int64_t count, eitp_error *error) {
    const eitp_training_data data = eitp_training_get_data(r->training, EITP_TRAINING);
    const eitp_host host = command_host();
    eitp_sample_file *file = NULL;
    data_shown shown;
    eitp_status status = eitp_sample_file_open(&host, data.path, 0, &file, error);
    memset(&shown, 0, sizeof shown);
    shown.tokenizer = eitp_training_get_tokenizer(r->training);
    output_start();
    if (!status)
        status = data.is_labelled ? show_labelled(&shown, file, count, error)
                                  : show_windows(&shown, file, data.tokens,
                                                 eitp_training_get_recipe(r->training)->task.block_size, count, error);
    eitp_sample_file_close(file);
    return status;
}

#include "base/platform.h"
#include "task/labelled.h"

#include "base/status.h"
#include "model/transformer.h"
#include "task/pass.h"

#include <float.h>

static int eitp__model_has_segments(const eitp_model *model) {
    return model->config.segments > 1;
}

EITP__PRIVATE int eitp__labelled_input_count(const eitp_model *model) {
    return 1 + eitp__model_has_segments(model);
}

EITP__PRIVATE eitp_model_inputs eitp__labelled_inputs(eitp_pass *pass, const eitp_model *model) {
    eitp_model_inputs inputs = eitp_pass_model_inputs(pass, model);
    if (eitp__model_has_segments(model))
        inputs.segments = pass->segments = eitp_pass_row_input(pass, "segments", EITP_I32, 0, NULL, 0);
    return inputs;
}

EITP__PRIVATE eitp_status eitp__labelled_check(const eitp_labelled_source *source, const eitp_model *model,
                                               eitp_error *error) {
    if (!source->count)
        return EITP_OK;
    if (!source->read)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a labelled source must have read");
    if (source->max_length < 1 || source->max_length > eitp_model_positions(model))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the longest sample has %lld tokens; it must be 1 to the model's %lld positions: truncate samples "
            "when they are encoded",
            (long long)source->max_length, (long long)eitp_model_positions(model));
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__check_ids_below(const char *what, const int32_t *ids, int64_t count, int64_t limit,
                                                const char *advice, uint64_t number, eitp_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= limit)
            return eitp__fail(error, EITP_ERROR_FORMAT, "sample %llu has %s %d; expected 0 to %lld: %s",
                              (unsigned long long)number, what, (int)ids[i], (long long)limit - 1, advice);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labelled_read(const eitp_labelled_source *source, const eitp_model *model,
                                              uint64_t number, eitp_sample *sample, eitp_labelled_sample *read,
                                              eitp_error *error) {
    eitp_status status;
    read->ids = (int32_t *)sample->values[0];
    read->segments = eitp__model_has_segments(model) ? (int32_t *)sample->values[1] : NULL;
    read->label = -1;
    status = source->read(source->user, number, read, error);
    if (status)
        return status;
    if (read->length < 1 || read->length > source->max_length)
        return eitp__fail(error, EITP_ERROR_FORMAT, "sample %llu has %lld tokens; expected 1 to %lld",
                          (unsigned long long)number, (long long)read->length, (long long)source->max_length);
    sample->rows = read->length;
    status = eitp__check_ids_below("token id", read->ids, read->length, eitp_model_vocabulary(model),
                                   "use the model's tokenizer", number, error);
    if (!status && read->segments)
        status = eitp__check_ids_below("segment", read->segments, read->length, model->config.segments,
                                       "set segments in eitp_transformer_config", number, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__check_weights_read(const float *weights, int64_t count, uint64_t number,
                                                   eitp_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && weights[i] <= FLT_MAX))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "sample %llu has a weight of %g; it must be finite and at least 0",
                              (unsigned long long)number, (double)weights[i]);
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__labelled_identify(const eitp_labelled_source *source, eitp_task_identity *identity) {
    identity->hash = source->hash;
    identity->first = 0;
    identity->count = source->count;
}

EITP__PRIVATE void eitp__labelled_fill(const eitp_labelled_source sources[2], eitp_model *model, eitp_task *task) {
    task->context = eitp_model_context(model);
    task->model = model;
    for (int split = 0; split < 2; split++) {
        task->samples[split] = sources[split].count;
        if (sources[split].count && sources[split].max_length > task->rows)
            task->rows = sources[split].max_length;
    }
    task->rows_vary = task->allows_gaps = 1;
}

EITP__PRIVATE eitp_status eitp__save_tokenizer(const eitp_tokenizer *tokenizer, eitp_model *model,
                                               const char *directory, eitp_error *error) {
    if (!tokenizer)
        return EITP_OK;
    eitp_model_set_special_tokens(model, eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT),
                                  eitp_tokenizer_special(tokenizer, EITP_END_OF_TEXT),
                                  eitp_tokenizer_special(tokenizer, EITP_PADDING));
    return eitp_tokenizer_save(tokenizer, directory, error);
}

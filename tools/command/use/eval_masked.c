/* eitp eval of masked language models: the loss of hidden tokens, in windows of text or in each row of a table. */
#include "data/labelled.h"
#include "use/eval.h"
#include "use/split.h"

static eitp_status open_rows(evaluating *e, eitp_error *error) {
    labelled_settings settings;
    eitp_status status;
    memset(&settings, 0, sizeof settings);
    evaluating_set_max_length(e);
    settings.tokenizer = e->trained.tokenizer;
    settings.vocabulary = eitp_model_vocabulary(e->trained.model);
    settings.max_length = e->block_size;
    settings.drops_labels = 1;
    status = evaluating_use_packed(e, packed_has_samples, error);
    if (!status)
        status = labelled_open(&e->options, OPTION_DATA, &settings, &e->data, error);
    if (status)
        return status;
    labelled_report(&e->data);
    return split_find_part(&e->options, trained_model_checkpoint(&e->trained), &e->data, &e->part, error);
}

static eitp_status open_data(evaluating *e, eitp_error *error) {
    if (!e->trained.tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' predicts masked tokens and has no tokenizer, which has the mask token; name one with "
                            "--tokenizer",
                            e->trained.base);
    return data_is_table(&e->options, OPTION_DATA) ? open_rows(e, error) : evaluating_open_tokens(e, error);
}

static eitp_status create_task(evaluating *e, eitp_error *error) {
    eitp_masked_config config = eitp_masked_config_default();
    eitp_status status = EITP_OK;
    config.model = e->trained.model;
    config.tokenizer = e->trained.tokenizer;
    config.training = eitp_labelled_part_source(e->part);
    if (e->data.file) {
        const eitp_token_source tokens = eitp_token_file_source(e->data.file, e->range);
        status = eitp_text_windows_init(&e->windows, &tokens, e->trained.tokenizer, e->block_size, error);
        config.training = eitp_text_windows_source(&e->windows);
    }
    return status ? status : eitp_masked_task(&config, &e->task, error);
}

static void add_json(const evaluating *e, text_buffer *t) {
    text_json_member_integer(t, "masked_tokens", e->result.items);
}

static void add_text(const evaluating *e, text_buffer *t) {
    text_format(t, "loss %.6f nats per masked token (standard error %.6f), %lld masked tokens\n", e->result.loss,
                e->result.error, (long long)e->result.items);
}

const evaluating_kind evaluating_masked = {open_data, create_task, add_json, add_text};

/* eitp eval of language models: loss, perplexity and bits per byte. */
#include "model/model.h"
#include "use/eval.h"
#include "use/split.h"

eitp_status evaluating_open_tokens(evaluating *e, eitp_error *error) {
    const option_set *o = &e->options;
    const int64_t vocabulary = eitp_model_vocabulary(e->trained.model);
    int is_token_file = 0;
    eitp_status status = model_check_block_size(o, eitp_model_positions(e->trained.model), error);
    if (!status)
        status = evaluating_use_packed(e, packed_has_tokens, error);
    if (!status && !e->data.path)
        status = data_is_token_file(o, OPTION_DATA, &is_token_file, error);
    if (!status && !e->trained.tokenizer && !is_token_file)
        status = model_use_bytes(&e->trained.tokenizer, error);
    if (!status && e->trained.tokenizer)
        status = model_check_tokenizer(e->trained.tokenizer, NULL, vocabulary, error);
    if (!status)
        status = data_open(o, OPTION_DATA, e->trained.tokenizer, vocabulary, &e->data, error);
    if (!status && e->trained.tokenizer)
        status = model_check_tokenizer(e->trained.tokenizer, e->data.file, vocabulary, error);
    return status ? status : split_find_range(o, trained_model_checkpoint(&e->trained), &e->data, &e->range, error);
}

static eitp_status create_task(evaluating *e, eitp_error *error) {
    eitp_language_config config = eitp_language_config_default();
    config.model = e->trained.model;
    config.training = eitp_token_file_source(e->data.file, e->range);
    config.block_size = e->block_size;
    return eitp_language_task(&config, &e->task, error);
}

/* The mean over the whole token file, of which the evaluated tokens may be a part; 0 if the file does not say. */
static double bytes_per_token(const evaluating *e) {
    const eitp_token_file_info info = eitp_token_file_get_info(e->data.file);
    return (double)info.text_bytes / (double)info.token_count;
}

/* Bits per byte of text: loss / ln 2 for a token of the file's mean length. */
static double bits_per_byte(const evaluating *e) {
    return e->result.loss / (log(2.0) * bytes_per_token(e));
}

static void add_json(const evaluating *e, text_buffer *t) {
    text_json_member_number(t, "perplexity", exp(e->result.loss));
    text_json_member_number(t, "bits_per_byte", bits_per_byte(e)); /* null if it is not known */
    text_json_member_number(t, "bytes_per_token", bytes_per_token(e));
    text_json_member_integer(t, "tokens", e->result.items);
    text_json_member_integer(t, "first_token", (int64_t)e->range.first);
}

static void add_text(const evaluating *e, text_buffer *t) {
    text_format(t, "loss %.6f nats per token (standard error %.6f), perplexity %.4f", e->result.loss, e->result.error,
                exp(e->result.loss));
    if (bytes_per_token(e) > 0)
        text_format(t, ", %.4f bits per byte (%.3f bytes per token in the file)", bits_per_byte(e), bytes_per_token(e));
    text_format(t, ", %lld tokens\n", (long long)e->result.items);
}

const evaluating_kind evaluating_language = {evaluating_open_tokens, create_task, add_json, add_text};

#include "objective/emergence_reference.h"

EITP__PRIVATE void eitp__reference_open(eitp__reference *r, const eitp__emergence *e, const eitp_model *model) {
    memset(r, 0, sizeof *r);
    r->e = e;
    r->model = model;
}

static size_t eitp__reference_hidden_bytes(const eitp__reference *r) {
    return (size_t)(r->capacity * r->model->config.width) * sizeof *r->hidden;
}

EITP__PRIVATE void eitp__reference_release(eitp__reference *r) {
    if (!r->capacity)
        return;
    eitp__head_pass_release(&r->head_pass);
    eitp__hidden_pass_release(&r->hidden_pass);
    eitp__release(&r->e->host, r->hidden, eitp__reference_hidden_bytes(r));
    eitp__release(&r->e->host, r->predictions, (size_t)r->capacity * sizeof *r->predictions);
    r->hidden = NULL;
    r->predictions = NULL;
    r->capacity = 0;
}

/* Makes room for a sequence of `count` tokens. */
static eitp_status eitp__reference_reserve(eitp__reference *r, int64_t count, eitp_error *error) {
    eitp_status status;
    if (count <= r->capacity)
        return EITP_OK;
    eitp__reference_release(r);
    r->capacity = count;
    r->hidden = (float *)eitp__allocate(&r->e->host, eitp__reference_hidden_bytes(r));
    r->predictions = (eitp__prediction *)eitp__allocate(&r->e->host, (size_t)count * sizeof *r->predictions);
    if (!r->hidden || !r->predictions)
        return eitp__fail_memory(error, eitp__reference_hidden_bytes(r), "scoring a generated sample");
    status = eitp__hidden_pass_create(&r->hidden_pass, r->model, count, 0, 0, error);
    return status ? status : eitp__head_pass_create(&r->head_pass, r->model, count, 0, error);
}

/* ---- Tokens ---- */

/* A sequence of the reference's tokens. The tokens from `judged` on are scored. */
typedef struct eitp__judged_sequence {
    int32_t *ids;
    size_t room, count, judged;
} eitp__judged_sequence;

/* Adds the tokens of `size` bytes. */
static eitp_status eitp__judged_sequence_add_bytes(const eitp__reference *r, eitp__judged_sequence *s,
                                                   const char *bytes, size_t size, eitp_error *error) {
    size_t count = 0;
    const eitp_status status = eitp_tokenizer_encode(r->e->config->reference_tokenizer, bytes, size, s->ids + s->count,
                                                     s->room - s->count, &count, error);
    s->count += status ? 0 : count;
    return status;
}

/* Adds tokens of the measured model: their text in tokens of the reference, at most 4 per byte. */
static eitp_status eitp__judged_sequence_add(const eitp__reference *r, eitp__judged_sequence *s, const int32_t *tokens,
                                             int64_t count, eitp_error *error) {
    const eitp_tokenizer *tokenizer = r->e->config->tokenizer;
    const eitp_host *host = &r->e->host;
    size_t size = 0;
    char *bytes;
    eitp_status status = eitp_tokenizer_decode(tokenizer, tokens, (size_t)count, NULL, 0, &size, error);
    if (status)
        return status;
    bytes = (char *)eitp__allocate(host, size + 1);
    if (!bytes || !eitp__reserve(host, (void **)&s->ids, &s->room, s->count + 4 * size, sizeof *s->ids))
        status = eitp__fail_memory(error, size, "a text");
    if (!status)
        status = eitp_tokenizer_decode(tokenizer, tokens, (size_t)count, bytes, size, &size, error);
    if (!status)
        status = eitp__judged_sequence_add_bytes(r, s, bytes, size, error);
    eitp__release(host, bytes, size + 1);
    return status;
}

/* Builds end-of-text, the prompt and the generated text, each tokenized separately. */
static eitp_status eitp__judged_sequence_build(const eitp__reference *r, eitp__judged_sequence *s,
                                               const int32_t *prompt, int64_t prompt_count, const int32_t *text,
                                               int64_t count, eitp_error *error) {
    const int32_t end = eitp_tokenizer_end_of_text(r->e->config->reference_tokenizer);
    eitp_status status;
    if (!eitp__reserve(&r->e->host, (void **)&s->ids, &s->room, 1, sizeof *s->ids))
        return eitp__fail_memory(error, sizeof *s->ids, "a text");
    if (end >= 0)
        s->ids[s->count++] = end;
    status = eitp__judged_sequence_add(r, s, prompt, prompt_count, error);
    s->judged = s->count;
    return status ? status : eitp__judged_sequence_add(r, s, text, count, error);
}

/* Cuts the sequence to the positions of the reference: the start of the prompt first, then the end of the generated
   text. */
static void eitp__judged_sequence_cut(eitp__judged_sequence *s, size_t positions) {
    const size_t context = s->judged, text = s->count - context;
    const size_t kept_text = text < positions ? text : positions - (context > 0);
    const size_t kept_context = context < positions - kept_text ? context : positions - kept_text;
    memmove(s->ids, s->ids + context - kept_context, (kept_context + kept_text) * sizeof *s->ids);
    s->judged = kept_context;
    s->count = kept_context + kept_text;
}

/* ---- Scoring ---- */

static eitp_status eitp__judged_sequence_judge(eitp__reference *r, const eitp__judged_sequence *s, eitp_error *error) {
    /* Nothing precedes the first token, so it cannot be predicted. */
    const int64_t first = s->judged ? (int64_t)s->judged - 1 : 0, rows = (int64_t)s->count - 1, judged = rows - first;
    const int64_t width = r->model->config.width;
    double loss = 0;
    eitp_status status;
    if (judged < 1)
        return EITP_OK;
    status = eitp__reference_reserve(r, rows, error);
    if (!status)
        status = eitp__hidden_pass_execute(&r->hidden_pass, s->ids, NULL, rows, error);
    if (!status)
        status = eitp__hidden_pass_read(&r->hidden_pass, r->hidden_pass.final_state, rows, width, r->hidden, error);
    if (!status)
        status = eitp__head_pass_execute(&r->head_pass, r->hidden + first * width, NULL, s->ids + first + 1, judged,
                                         r->predictions, error);
    for (int64_t i = 0; i < judged && !status; i++)
        loss += (double)r->predictions[i].loss;
    if (!status)
        eitp__sampled_add(&r->loss, loss, (double)judged);
    return status;
}

EITP__PRIVATE eitp_status eitp__reference_judge(eitp__reference *r, const int32_t *prompt, int64_t prompt_count,
                                                const int32_t *text, int64_t count, eitp_error *error) {
    eitp__judged_sequence s = EITP__ZERO;
    eitp_status status = eitp__judged_sequence_build(r, &s, prompt, prompt_count, text, count, error);
    if (!status) {
        eitp__judged_sequence_cut(&s, (size_t)eitp_model_positions(r->model));
        status = eitp__judged_sequence_judge(r, &s, error);
    }
    eitp__release(&r->e->host, s.ids, s.room * sizeof *s.ids);
    return status;
}

EITP__PRIVATE eitp_status eitp__reference_report(const eitp__reference *r, eitp_error *error) {
    const double perplexity = exp(eitp__sampled_mean(&r->loss));
    return eitp__report_number(r->e->report, "text", "reference_perplexity", perplexity, r->loss.items,
                               perplexity * eitp__sampled_error(&r->loss),
                               "the generated samples are empty, or the reference's predictions are not finite", error);
}

/* Classifies one text with a predictor created for it. */
#include "base/memory.h"
#include "base/status.h"
#include "task/predictor.h"

/* Refuses models that do not choose one label for a text. */
static eitp_status eitp__check_classifies_texts(const eitp_model *model, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(model);
    if (config.head == EITP_HEAD_TOKEN_CLASSIFIER)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model labels words, not a whole text; use eitp_predict with EITP_PREDICT_WORD_SCORES");
    if (config.head != EITP_HEAD_CLASSIFIER)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model has no text classifier; train one, or use eitp_predict with "
                          "EITP_PREDICT_EMBEDDINGS");
    return EITP_OK;
}

static eitp_status eitp__check_one_label(const eitp_predictor *predictor, eitp_error *error) {
    const eitp_problem problem = eitp_predictor_problem(predictor);
    if (problem == EITP_PROBLEM_REGRESSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model predicts numbers, not labels; eitp_predict computes them");
    if (problem == EITP_PROBLEM_MULTI_LABEL)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model scores each label separately, and a text may have several or none; use "
                          "eitp_predict and eitp_predictor_probabilities");
    return EITP_OK;
}

/* Replaces the scores with probabilities and stores the index of the largest. */
static eitp_status eitp__choose_label(const eitp_predictor *predictor, float *scores, int64_t *best,
                                      eitp_error *error) {
    const int64_t count = eitp_predictor_width(predictor);
    *best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(scores[i]))
            return eitp__fail(error, EITP_ERROR_NOT_FINITE,
                              "the score of label %lld is not finite; use precision fp32 or an earlier checkpoint",
                              (long long)i);
        *best = scores[i] > scores[*best] ? i : *best;
    }
    eitp_predictor_probabilities(predictor, scores, 1, scores);
    return EITP_OK;
}

static eitp_status eitp__predict_label(eitp_predictor *predictor, const eitp_host *host, const eitp_text *text,
                                       int64_t *best, double *probability, eitp_error *error) {
    const size_t bytes = (size_t)eitp_predictor_width(predictor) * sizeof(float);
    const eitp_text_pair pair = {*text, {NULL, 0}, NULL, 0};
    float *scores = (float *)eitp__allocate(host, bytes);
    eitp_status status = scores ? eitp_predict(predictor, &pair, 1, scores, NULL, error)
                                : eitp__fail_memory(error, bytes, "the scores of a text");
    if (!status)
        status = eitp__choose_label(predictor, scores, best, error);
    if (!status && probability)
        *probability = (double)scores[*best];
    eitp__release(host, scores, bytes);
    return status;
}

eitp_status eitp_classify_text(const eitp_model *model, const eitp_tokenizer *tokenizer, const char *text, size_t size,
                               const char **label, double *probability, eitp_error *error) {
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    const eitp_text whole = {size ? text : "", size};
    eitp_predictor_config config;
    eitp_predictor *predictor = NULL;
    int64_t best = 0;
    eitp_status status;
    if (!model || !tokenizer || !label || (size && !text))
        return eitp__fail_null(error, "eitp_classify_text", "model, tokenizer, text with a size, and label");
    status = eitp__check_classifies_texts(model, error);
    if (status)
        return status;
    config = eitp_predictor_config_default(model, tokenizer);
    config.pass_tokens = config.max_length; /* there is only one text */
    status = eitp_predictor_create(model, tokenizer, &config, &predictor, error);
    if (!status)
        status = eitp__check_one_label(predictor, error);
    if (!status)
        status = eitp__predict_label(predictor, &host, &whole, &best, probability, error);
    if (!status)
        *label = eitp_model_label(model, best);
    eitp_predictor_destroy(predictor);
    return status;
}

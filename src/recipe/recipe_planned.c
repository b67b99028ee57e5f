/* A recipe whose data may be missing or incomplete: it is planned with random samples of the same shape. */
#include "recipe/training.h"

/* Assumes two labels, or one number, for a new classifier. The data would determine it, but memory hardly depends on
   it. */
static void eitp__presume_labels(eitp_training *training) {
    eitp_transformer_config *shape = &training->shape;
    if (!eitp_head_has_labels(shape->head))
        return;
    shape->problem = shape->problem ? shape->problem : training->kind->problem;
    if (training->stored.head != shape->head)
        shape->labels = shape->problem == EITP_PROBLEM_REGRESSION ? 1 : 2;
}

/* Sets the maximum vocabulary that opening would give random weights. */
static eitp_status eitp__presume_vocabulary(eitp_training *training, int has_rows, eitp_error *error) {
    int is_token_file = 0;
    eitp_status status = EITP_OK;
    if (training->tokenizer) {
        eitp__training_follow_tokenizer(training);
        return eitp__training_check_tokenizer(training, NULL, error);
    }
    if (!training->recipe.data.training.count)
        return EITP_OK;
    status = eitp__part_is_token_file(training, EITP_TRAINING, &is_token_file, error);
    if (status)
        return status;
    return is_token_file ? eitp__take_file_vocabulary(training, training->parts[EITP_TRAINING].paths->texts[0], error)
                         : eitp__training_presume_tokenizer(training, has_rows, error);
}

/* Sets *has_samples to 1 if the samples are rows or conversations, not windows of text. */
static eitp_status eitp__judge_samples(eitp_training *training, int *has_samples, eitp_error *error) {
    const eitp_task_kind kind = training->kind->kind;
    eitp_status status = EITP_OK;
    *has_samples = eitp_head_has_labels(training->kind->head) || kind == EITP_TASK_VAE ||
                   (kind == EITP_TASK_MASKED && eitp__part_has_rows(training, EITP_TRAINING));
    if (kind != EITP_TASK_LANGUAGE)
        return EITP_OK;
    status = eitp__find_conversations(training, error);
    *has_samples = training->recipe.data.format == EITP_FORMAT_CHAT;
    return !status && *has_samples ? eitp__open_chat(training, error) : status;
}

EITP__PRIVATE eitp_status eitp__open_planned(eitp_training *training, eitp_error *error) {
    int has_samples = 0;
    eitp_status status = eitp__judge_samples(training, &has_samples, error);
    if (!status)
        status = eitp__presume_vocabulary(training, has_samples, error);
    if (!status && training->kind->kind == EITP_TASK_VAE)
        status = eitp__settle_encoder_vocabulary(training, error);
    eitp__presume_labels(training);
    training->recipe.task.kind = training->kind->kind;
    training->parts[EITP_TRAINING].is_labelled = has_samples;
    if (!status && has_samples && training->recipe.task.block_size <= 0)
        eitp__settle_block_size(training);
    return status || !training->tokenizer ? status : eitp__sample_texts_check(training, error);
}

/* Uses the maximum length that training would give its samples. */
EITP__PRIVATE void eitp__training_split_random(eitp_training *training) {
    const eitp_data_recipe *data = &training->recipe.data;
    const int is_vae = training->kind->kind == EITP_TASK_VAE;
    const int is_labelled = training->parts[EITP_TRAINING].is_labelled;
    if (is_labelled)
        eitp__settle_block_size(training);
    training->validates = !data->holds_out_only && (data->validation.count > 0 || data->validation_fraction > 0);
    training->rows = is_vae        ? eitp__vae_text_length(training) - 1
                     : is_labelled ? eitp__training_max_length(training)
                                   : eitp__training_window_size(training);
    if (!is_labelled)
        training->recipe.task.block_size = training->rows;
}

/* The members that a training adds to run.json, and its lines in the log. */
#include "base/json.h"
#include "data/label_counts.h"
#include "recipe/training.h"
#include "train/trainer.h"

/* ---- The log ---- */

/* Returns the number of samples of each label, plus one more element. NULL for numbers, for samples without labels, and
   if out of memory. */
static uint64_t *eitp__count_training_labels(const eitp_training *training, const eitp_labelled_source *source) {
    const size_t bytes = (size_t)(source->label_count + 1) * sizeof(uint64_t);
    uint64_t *counts = source->label_count && source->problem != EITP_PROBLEM_REGRESSION
                           ? (uint64_t *)eitp__allocate(&training->host, bytes)
                           : NULL;
    if (!counts || !eitp__labelled_class_counts(&training->host, source, counts, NULL))
        return counts;
    eitp__release(&training->host, counts, bytes);
    return NULL;
}

/* Formats the labels, such as "; labels: neg 1480, pos 1400", up to a limit. For conversations, formats the number of
   tokens trained on. "" for numbers and for samples without labels. */
static void eitp__describe_labels(const eitp_training *training, char *text, size_t size) {
    enum { SHOWN = 10 };
    const eitp_labelled_source source = eitp__part_samples(training, EITP_TRAINING);
    uint64_t *counts = eitp__count_training_labels(training, &source);
    size_t used = 0;
    *text = 0;
    if (!counts)
        return;
    if (training->chat)
        snprintf(text, size, "; %llu tokens are trained on", (unsigned long long)counts[0]);
    for (int64_t i = 0; i < source.label_count && !training->chat && i < SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.40s %llu",
                                 i ? ", " : "; labels: ", source.labels ? source.labels[i] : "label",
                                 (unsigned long long)counts[i]);
    if (source.label_count > SHOWN && used < size)
        snprintf(text + used, size - used, ", and %lld more label%s", (long long)(source.label_count - SHOWN),
                 source.label_count == SHOWN + 1 ? "" : "s");
    eitp__release(&training->host, counts, (size_t)(source.label_count + 1) * sizeof *counts);
}

/* Logs the part of the training data that is held out because no validation data was named. */
static void eitp__log_held_out(const eitp_training *training) {
    const eitp__data_part *parts = training->parts;
    const uint64_t *samples = training->task.samples;
    const double fraction = training->recipe.data.validation_fraction;
    char held[100];
    if (training->is_resumed || !training->validates || parts[EITP_VALIDATION].file)
        return;
    if (parts[EITP_TRAINING].is_labelled)
        snprintf(held, sizeof held, "%llu of %llu samples, drawn by the seed", (unsigned long long)samples[1],
                 (unsigned long long)(samples[0] + samples[1]));
    else
        snprintf(held, sizeof held, "the last %llu of %llu tokens",
                 (unsigned long long)parts[EITP_VALIDATION].range.count,
                 (unsigned long long)(parts[EITP_TRAINING].range.count + parts[EITP_VALIDATION].range.count));
    eitp__log_line(&training->host, EITP_LOG_INFO, "held out for validation: %s (val_fraction %g; 0 trains on all)",
                   held, fraction);
}

EITP__PRIVATE void eitp__training_log_data(const eitp_training *training) {
    const eitp_recipe *recipe = &training->recipe;
    const uint64_t *samples = training->task.samples;
    const double epochs = (double)eitp__trainer_samples(training->trainer, recipe->run.steps) / (double)samples[0];
    const char *are = recipe->run.steps == 1 ? "step is" : "steps are";
    char labels[600];
    eitp__log_held_out(training);
    if (training->kind->kind == EITP_TASK_LANGUAGE && !training->chat) {
        eitp__log_line(&training->host, EITP_LOG_INFO,
                       "data: %llu training windows, %llu validation tokens; %lld %s %.2f epochs",
                       (unsigned long long)samples[0], (unsigned long long)training->parts[EITP_VALIDATION].range.count,
                       (long long)recipe->run.steps, are, epochs);
        return;
    }
    eitp__describe_labels(training, labels, sizeof labels);
    eitp__log_line(&training->host, EITP_LOG_INFO,
                   "data: %llu training samples, %llu validation samples, at most %lld tokens; %lld %s %.2f epochs%s",
                   (unsigned long long)samples[0], (unsigned long long)samples[1], (long long)training->task.rows,
                   (long long)recipe->run.steps, are, epochs, labels);
}

/* ---- run.json ---- */

static void eitp__write_member(eitp__buffer *text, const char *name, const char *value) {
    eitp__buffer_format(text, "%s\"%s\": ", text->size > 1 ? ", " : "", name);
    eitp__json_write_name(text, value);
}

/* Appends "labels": {"neg": 1480, "pos": 1400}. */
static void eitp__write_label_counts(const eitp_training *training, eitp__buffer *text) {
    const eitp_labelled_source source = eitp__part_samples(training, EITP_TRAINING);
    uint64_t *counts = eitp__count_training_labels(training, &source);
    if (!counts)
        return;
    eitp__buffer_add_text(text, ", \"labels\": {");
    for (int64_t i = 0; i < source.label_count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)i);
        eitp__buffer_add_text(text, i ? ", " : "");
        eitp__json_write_name(text, source.labels ? source.labels[i] : number);
        eitp__buffer_format(text, ": %llu", (unsigned long long)counts[i]);
    }
    eitp__buffer_add_text(text, "}");
    eitp__release(&training->host, counts, (size_t)(source.label_count + 1) * sizeof *counts);
}

static void eitp__write_count(eitp__buffer *text, const char *name, uint64_t count) {
    eitp__buffer_format(text, ", \"%s\": %llu", name, (unsigned long long)count);
}

/* Appends the statistics found by packing; nothing for a file without them. */
static void eitp__write_texts_found(const eitp_sample_file_info *info, eitp__buffer *text) {
    if (!info->text_bytes)
        return;
    eitp__write_count(text, "documents", info->document_count);
    eitp__write_count(text, "text_bytes", info->text_bytes);
    eitp__write_count(text, "invalid_bytes", info->invalid_bytes);
    eitp__buffer_add_text(text, ", \"tokens_per_byte\": ");
    eitp__json_write_number(text, (double)info->token_count / (double)info->text_bytes);
    eitp__buffer_add_text(text, ", \"unigram_entropy\": ");
    eitp__json_write_number(text, info->unigram_entropy);
}

static void eitp__write_examples_found(const eitp_sample_file_info *info, eitp__buffer *text) {
    eitp__write_count(text, "tokens", info->token_count);
    eitp__write_count(text, "longest_sample", (uint64_t)info->max_length);
    eitp__write_count(text, "pairs", info->pair_count);
    eitp__write_count(text, "cut_samples", info->cut_samples);
    eitp__write_count(text, "cut_tokens", info->cut_ids);
    eitp__write_count(text, "skipped", info->skipped);
    eitp__write_count(text, "repeated", info->repeated);
    eitp__write_count(text, "ambiguous", info->ambiguous);
}

/* Appends the percentage of tokens that stand for words unknown to the tokenizer, among the first tokens. Omitted if
   there is no such token, for two tokenizers, and if the file cannot be read. */
static void eitp__write_unknown(const eitp_training *training, const eitp_sample_file *file, uint64_t count,
                                eitp__buffer *text) {
    enum { AT_ONCE = 1024 };
    const uint64_t checked_at = 65536, at_once = AT_ONCE, most = count < checked_at ? count : checked_at;
    const int32_t unknown = eitp_tokenizer_special(training->tokenizer, EITP_UNKNOWN);
    int32_t ids[AT_ONCE];
    uint64_t found = 0;
    if (eitp_sample_file_get_info(file).second_vocabulary || unknown < 0 ||
        unknown == eitp_tokenizer_special(training->tokenizer, EITP_END_OF_TEXT) || !count)
        return;
    for (uint64_t at = 0; at < most; at += at_once) {
        const uint64_t size = most - at < at_once ? most - at : at_once;
        if (eitp_sample_file_read_tokens(file, at, size, ids, NULL))
            return;
        for (uint64_t i = 0; i < size; i++)
            found += ids[i] == unknown;
    }
    eitp__buffer_add_text(text, ", \"unknown_percent\": ");
    eitp__json_write_number(text, 100.0 * (double)found / (double)most);
}

/* Appends the data: its file, the statistics of packing, and the size of each part. */
static void eitp__write_data(const eitp_training *training, eitp__buffer *text) {
    const eitp__data_part *data = &training->parts[EITP_TRAINING];
    const eitp_sample_file_info info = eitp_sample_file_get_info(data->file);
    eitp__buffer_add_text(text, "{");
    eitp__write_member(text, data->is_labelled ? "labelled_file" : "token_file", data->path);
    if (data->is_labelled) {
        eitp__write_examples_found(&info, text);
        eitp__write_label_counts(training, text);
    } else {
        eitp__write_texts_found(&info, text);
        eitp__write_count(text, "training_tokens", data->range.count);
        eitp__write_count(text, "validation_tokens", training->parts[EITP_VALIDATION].range.count);
    }
    eitp__write_unknown(training, data->file, info.token_count, text);
    eitp__write_count(text, "training_samples", training->task.samples[EITP_TRAINING]);
    eitp__write_count(text, "validation_samples", training->task.samples[EITP_VALIDATION]);
    eitp__buffer_add_text(text, "}");
}

static void eitp__write_model(const eitp_training *training, eitp__buffer *text) {
    eitp__buffer_add_text(text, "{");
    eitp__write_member(text, "type", eitp_architecture_name(training->shape.architecture));
    eitp__buffer_format(
        text, ", \"parameters\": %lld, \"vocabulary\": %lld, \"sample_tokens\": %lld, \"trained_parameters\": %lld",
        (long long)eitp_model_parameter_count(training->model), (long long)eitp_model_vocabulary(training->model),
        (long long)training->task.rows, (long long)eitp_model_trained_parameter_count(training->model));
    if (training->latent.size) {
        eitp__write_member(text, "encoder", eitp_architecture_name(training->latent.encoder.architecture));
        eitp__write_count(text, "latent_size", (uint64_t)training->latent.size);
    }
    eitp__buffer_add_text(text, "}");
}

/* Appends the configuration as completed by planning. */
static void eitp__write_configuration(const eitp_training *training, eitp__buffer *text) {
    eitp__buffer_add_text(text, "{");
    eitp__recipe_write(&training->recipe, text);
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE eitp_status eitp__training_add_info(eitp_training *training, eitp_error *error) {
    static const struct {
        const char *name;
        void (*write)(const eitp_training *training, eitp__buffer *text);
    } members[] = {
        {"model", eitp__write_model}, {"data", eitp__write_data}, {"configuration", eitp__write_configuration}};
    eitp_status status = EITP_OK;
    eitp__buffer text;
    eitp__buffer_init(&text, &training->host);
    for (size_t i = 0; i < EITP__COUNT(members) && !status; i++) {
        eitp__buffer_clear(&text);
        members[i].write(training, &text);
        status = text.failed ? eitp__fail_memory(error, text.size, "run.json")
                             : eitp_run_add_info(training->run, members[i].name, text.data, error);
    }
    eitp__buffer_release(&text);
    return status;
}

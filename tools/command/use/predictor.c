#include "use/predictor.h"

#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "plan/fit.h"
#include "process.h"
#include "use/split.h"

/* Limits of a batch: rows, bytes of text, words. Lines are written when there are LINE_BYTES. */
enum { BATCH_ROWS = 512, BATCH_BYTES = 1 << 20, BATCH_WORDS = 1 << 14, LINE_BYTES = 1 << 16 };

int predicting_words(const predicting *p) {
    return p->config.prediction == EITP_PREDICT_WORD_SCORES;
}

/* True if the input is more than the text of an option, or details are requested: then memory and speed are of
   interest. */
static int shows_figures(const predicting *p) {
    return !options_has(&p->options, OPTION_TEXT) || options_integer(&p->options, OPTION_VERBOSE);
}

/* ---- Before the weights are read ---- */

/* The model that will be read, in a context without memory. */
typedef struct planned_model {
    eitp_context *context;
    eitp_model *model;
} planned_model;

static eitp_status planned_open(const predicting *p, planned_model *planned, eitp_error *error) {
    const trained_model *m = &p->trained;
    const eitp_transformer_config *shape = eitp_training_get_shape(m->training);
    const eitp_latent_config latent = eitp_training_get_latent(m->training);
    const eitp_host host = command_host();
    char isa[MODEL_ISA_SIZE];
    eitp_context_config context = model_context_config(&p->options, NULL, isa);
    eitp_lora_config lora;
    eitp_status status;
    memset(planned, 0, sizeof *planned);
    context.plans_only = 1;
    status = eitp_context_create(&context, &planned->context, error);
    if (!status)
        status = eitp_model_create(planned->context, shape, &planned->model, error);
    if (!status && latent.size)
        status = eitp_model_add_encoder(planned->model, &latent, error);
    if (!status && m->adapter)
        status = eitp_lora_config_read(&host, m->adapter, shape->architecture, &lora, NULL, 0, error);
    if (!status && m->adapter)
        status = eitp_model_add_lora(planned->model, &lora, error);
    return status;
}

static void planned_close(planned_model *planned) {
    eitp_model_destroy(planned->model);
    eitp_context_destroy(planned->context);
}

/* Returns the bytes of a batch and of the weights. A text buffer may be twice as large as its text, and a batch ends
   only after a whole sample. */
static double planned_bytes(const predicting *p, const planned_model *planned) {
    const eitp_transformer_config config = eitp_model_config(planned->model);
    const int64_t width = p->kind->embeds ? config.width : config.labels;
    const int64_t values = predicting_words(p) ? BATCH_WORDS : BATCH_ROWS;
    double bytes = 4.0 * BATCH_BYTES + (double)(values * width * (int64_t)sizeof(float));
    for (size_t i = 0; i < eitp_variable_count(planned->context); i++)
        bytes += (double)eitp_variable_at(planned->context, i).size;
    return bytes;
}

/* Returns the tokenizer of the model that reads the text. */
static const eitp_tokenizer *reading_tokenizer(const predicting *p) {
    const eitp_tokenizer *own = eitp_training_get_encoder_tokenizer(p->trained.training);
    return own ? own : p->trained.tokenizer;
}

/* Applies files and options. With a latent-variable model the embedding is the latent mean. */
static eitp_status configure(predicting *p, const eitp_model *model, eitp_error *error) {
    option_set *o = &p->options;
    const eitp_host host = command_host();
    const int has_latent = eitp_model_encoder(model) != NULL;
    eitp_status status = EITP_OK;
    p->config = eitp_predictor_config_default(model, reading_tokenizer(p));
    p->config.omit_special_tokens = has_latent && reading_tokenizer(p) == p->trained.tokenizer;
    if (has_latent && (options_is_explicit(o, OPTION_POOLING) || options_is_explicit(o, OPTION_NORMALIZE)))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--pooling and --normalize do not apply to '%s': embeddings are the means of its latent "
                            "variable",
                            p->trained.directory);
    if (p->kind->embeds && !has_latent)
        status =
            eitp_embedding_config_read(&host, p->trained.directory, eitp_model_positions(model), &p->config, error);
    if (options_has(o, OPTION_POOLING)) /* in the order of eitp_embedding_pooling */
        p->config.pooling = (eitp_embedding_pooling)options_choice(o, OPTION_POOLING);
    if (options_has(o, OPTION_NORMALIZE))
        p->config.normalize = (int)options_integer(o, OPTION_NORMALIZE);
    if (options_has(o, OPTION_BLOCK_SIZE)) {
        profile_lower_block_size(o, eitp_model_positions(model));
        p->config.max_length = options_integer(o, OPTION_BLOCK_SIZE);
    }
    if (options_has(o, OPTION_TRUNCATION)) /* in the order of eitp_truncation */
        p->config.truncation = (eitp_truncation)options_choice(o, OPTION_TRUNCATION);
    if (options_has(o, OPTION_PASS_TOKENS))
        p->config.pass_tokens = options_integer(o, OPTION_PASS_TOKENS);
    return status;
}

/* Makes passes fit in memory together with the model, unless their size is set. */
static eitp_status fit(predicting *p, const planned_model *planned, eitp_error *error) {
    eitp_device_memory memory;
    double budget, others = planned_bytes(p, planned);
    size_t bytes = 0, left = 0; /* 0: no limit */
    eitp_status status = eitp_context_device_memory(planned->context, &memory, error);
    /* Model and passes are in device memory. */
    if (!status && memory.is_separate)
        budget = (double)memory.free;
    else if (!status)
        status = trained_model_budget(&p->options, &budget, error);
    others += memory.is_separate ? 0 : (double)process_memory();
    if (!status && budget > 0)
        left = budget > others + 1 ? (size_t)(budget - others) : 1;
    if (!status)
        status = eitp_fit_predictor(planned->model, left, &p->config, &bytes, error);
    if (status == EITP_ERROR_MEMORY && bytes > left && memory.is_separate)
        return command_fail(error, EITP_ERROR_MEMORY,
                            "the model and its passes need %s, but only %s of GPU memory is free; use --device cpu",
                            output_bytes(others + (double)bytes), output_bytes(budget));
    if (status == EITP_ERROR_MEMORY && bytes > left)
        return fit_fail(&p->options, "model", others + (double)bytes, budget, "", error);
    if (!status && shows_figures(p))
        output_info("memory: %s for model and passes, budget %s", output_bytes(others + (double)bytes),
                    output_bytes(budget));
    return status;
}

/* Opens the data; the model's run may name its columns. */
static eitp_status open_examples(predicting *p, eitp_error *error) {
    const eitp_transformer_config *shape = eitp_training_get_shape(p->trained.training);
    eitp_status status;
    split_copy_columns(&p->options, trained_model_checkpoint(&p->trained));
    /* Words do not have one line per row. */
    status =
        examples_open(&p->options, p->kind->embeds || shape->head != EITP_HEAD_TOKEN_CLASSIFIER, &p->examples, error);
    if (!status && !p->trained.tokenizer)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no tokenizer; name one with --tokenizer",
                              p->trained.directory);
    return status;
}

/* Fails before the weights are read if the data cannot be read, or the model is of the wrong kind or does not fit. */
static eitp_status admit(predicting *p, eitp_error *error) {
    planned_model planned;
    eitp_status status = open_examples(p, error);
    if (status)
        return status;
    status = planned_open(p, &planned, error);
    if (!status && !p->kind->embeds && !eitp_head_has_labels(eitp_model_config(planned.model).head))
        status = command_fail(error, EITP_ERROR_UNSUPPORTED,
                              "'%s' is a %s model without a classifier; train one on labelled data first, or use "
                              "embed, which takes any model",
                              p->trained.base, eitp_architecture_name(eitp_model_config(planned.model).architecture));
    if (!status)
        status = configure(p, planned.model, error);
    if (!status)
        status = fit(p, &planned, error);
    planned_close(&planned);
    return status;
}

static eitp_status predicting_open(predicting *p, eitp_error *error) {
    eitp_recipe recipe;
    eitp_status status;
    if (!options_has(&p->options, OPTION_MODEL) && !options_has(&p->options, OPTION_ADAPTER))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model is required: a model directory or an output directory");
    status = trained_model_describe(&p->options, &p->trained, &recipe, error);
    if (!status)
        status = trained_model_open(&p->trained, &recipe, EITP_SAMPLES_NONE, error);
    if (!status)
        status = admit(p, error);
    if (!status)
        status = trained_model_load(&p->trained, error);
    if (!status)
        status = eitp_predictor_create(p->trained.model, reading_tokenizer(p), &p->config, &p->predictor, error);
    if (status)
        return status;
    p->rows = (eitp_text_pair *)command_allocate(BATCH_ROWS * sizeof *p->rows);
    p->is_skipped = (char *)command_allocate(BATCH_ROWS);
    return result_stream_open(&p->output, options_text(&p->options, OPTION_OUTPUT), error);
}

/* ---- Batches ---- */

/* Copies text to the batch. Until the batch is complete, `bytes` only shows whether there is text. */
static eitp_text keep(predicting *p, const eitp_text *text) {
    text_add(&p->texts, text->bytes, text->size);
    return *text;
}

static void keep_word(predicting *p, size_t at, size_t size) {
    if (p->word_count == p->word_room) {
        p->word_room = p->word_room ? 2 * p->word_room : BATCH_WORDS;
        p->places = (word_place *)command_resize(p->places, p->word_room * sizeof *p->places);
    }
    p->places[p->word_count].at = at;
    p->places[p->word_count++].size = size;
}

/* Finds the words of a sample: as given, else separated by white space. Returns their number. */
static size_t keep_words(predicting *p, const eitp_example *example) {
    static const char space[] = " \t\r\n\v\f";
    const size_t before = p->word_count;
    const eitp_text *text = &example->text;
    for (size_t i = 0; i < example->word_count; i++)
        keep_word(p, (size_t)(example->words[i].bytes - text->bytes), example->words[i].size);
    for (size_t at = 0, end; at < text->size && !example->words; at = end) {
        for (end = at; end < text->size && text->bytes[end] && strchr(space, text->bytes[end]); end++)
            at = end + 1;
        for (; end < text->size && (!text->bytes[end] || !strchr(space, text->bytes[end])); end++)
            ;
        if (end > at)
            keep_word(p, at, end - at);
    }
    return p->word_count - before;
}

/* Sets the pointers of rows and words, since the text buffer moved while it grew. */
static void settle(predicting *p) {
    const char *at = p->texts.data;
    size_t word = 0;
    p->words = (eitp_text *)command_resize(p->words, (p->word_room ? p->word_room : 1) * sizeof *p->words);
    for (int64_t i = 0; i < p->count; i++) {
        p->rows[i].words = p->words + word;
        for (size_t end = word + p->rows[i].word_count; word < end; word++) {
            p->words[word].bytes = at + p->places[word].at;
            p->words[word].size = p->places[word].size;
        }
        eitp_text *parts[2];
        parts[0] = &p->rows[i].first;
        parts[1] = &p->rows[i].second;
        for (int part = 0; part < 2; part++) {
            parts[part]->bytes = part && !parts[part]->bytes ? NULL : at;
            at += parts[part]->size;
        }
    }
}

static eitp_status read_batch(predicting *p, int *is_end, eitp_error *error) {
    const eitp_example_source source = examples_source(p->examples);
    eitp_status status = EITP_OK;
    p->count = p->read_count = 0;
    p->texts.size = p->word_count = 0;
    text_add(&p->texts, "", 0);
    while (!status && !*is_end && p->read_count < BATCH_ROWS && p->texts.size < BATCH_BYTES &&
           p->word_count < BATCH_WORDS) {
        eitp_example example;
        status = source.read(source.user, &example, is_end, error);
        if (status || *is_end)
            break;
        p->is_skipped[p->read_count++] = (char)(example.is_skipped != 0);
        if (example.is_skipped)
            continue;
        p->rows[p->count].word_count = predicting_words(p) ? keep_words(p, &example) : 0;
        p->rows[p->count].first = keep(p, &example.text);
        p->rows[p->count++].second = keep(p, &example.pair);
    }
    settle(p);
    return status;
}

static eitp_status write_lines(predicting *p, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (p->lines.size)
        status = result_stream_write(&p->output, p->lines.data, p->lines.size, error);
    p->lines.size = 0;
    return status;
}

/* Allocates the values of the batch. */
static void reserve_values(predicting *p) {
    const size_t width = (size_t)eitp_predictor_width(p->predictor);
    const size_t needed = (predicting_words(p) ? p->word_count : (size_t)p->count) * width;
    if (needed > p->value_room || !p->values) {
        p->value_room = needed;
        p->values = (float *)command_resize(p->values, (needed ? needed : 1) * sizeof *p->values);
    }
}

static eitp_status predict_batch(predicting *p, eitp_error *error) {
    const double began = process_time();
    eitp_prediction_report report;
    eitp_status status;
    reserve_values(p);
    status = eitp_predict(p->predictor, p->rows, p->count, p->values, &report, error);
    p->seconds += process_time() - began;
    if (status)
        return status;
    p->done.tokens += report.tokens;
    p->done.cut += report.cut;
    p->done.cut_words += report.cut_words;
    p->done.passes += report.passes;
    return EITP_OK;
}

/* Writes the predictions for the rows of the batch, and a line without a result for each skipped row. */
static eitp_status write_batch(predicting *p, eitp_error *error) {
    const char *no_result = options_integer(&p->options, OPTION_JSON) ? "null\n" : "\n";
    const int64_t width = eitp_predictor_width(p->predictor);
    const eitp_text_pair *row = p->rows;
    const float *values = p->values;
    eitp_status status = EITP_OK, writing;
    for (int64_t i = 0; i < p->read_count && !status; i++) {
        if (p->is_skipped[i]) {
            text_format(&p->lines, "%s", no_result);
        } else {
            status = p->kind->write(p, row, values, &p->lines, error);
            values += width * (predicting_words(p) ? (int64_t)row->word_count : 1);
            p->texts_done += !status;
            row++;
        }
        if (!status && p->lines.size >= LINE_BYTES)
            status = write_lines(p, error);
    }
    /* Lines of rows before a failed row are written as well. */
    writing = write_lines(p, status ? NULL : error);
    return status ? status : writing;
}

static eitp_status predict_all(predicting *p, eitp_error *error) {
    eitp_status status = EITP_OK;
    int is_end = 0, is_closed = 0;
    while (!status && !is_end && !is_closed) {
        eitp_error later;
        const eitp_status reading = read_batch(p, &is_end, &later);
        if (p->count)
            status = predict_batch(p, error);
        if (!status)
            status = write_batch(p, error);
        if (!status)
            status = result_stream_flush(&p->output, &is_closed, error);
        if (!status && reading) {
            *error = later;
            status = reading;
        }
    }
    return status;
}

static void report(const predicting *p) {
    const double seconds = process_time() - p->began;
    const int64_t longest = eitp_predictor_get_config(p->predictor).max_length;
    if (p->done.cut)
        output_warning("%lld of %lld inputs had more than %lld tokens and were cut; --block-size allows up to %lld",
                       (long long)p->done.cut, (long long)p->texts_done, (long long)longest,
                       (long long)eitp_model_positions(p->trained.model));
    if (p->done.cut_words)
        output_warning("%lld words were cut and have no label", (long long)p->done.cut_words);
    if (seconds > 0 && p->seconds > 0 && shows_figures(p))
        output_info(
            "%lld input%s, %lld tokens, %.3f s: %.1f inputs and %.0f tokens per second; %.1f %% of it computing",
            (long long)p->texts_done, p->texts_done == 1 ? "" : "s", (long long)p->done.tokens, seconds,
            (double)p->texts_done / seconds, (double)p->done.tokens / seconds, 100 * p->seconds / seconds);
}

/* ---- Output ---- */

void predicting_add_float(text_buffer *t, float value) {
    if (isfinite(value))
        text_format(t, "%.9g", (double)value);
    else
        text_format(t, "null");
}

void predicting_add_text_members(const predicting *p, const eitp_text_pair *row, text_buffer *t) {
    if (!options_integer(&p->options, OPTION_WITH_TEXT))
        return;
    text_json_name(t, "text");
    text_json_string(t, row->first.bytes, row->first.size);
    if (row->second.bytes) {
        text_json_name(t, "pair");
        text_json_string(t, row->second.bytes, row->second.size);
    }
}

/* Adds text to a line of columns. */
static void add_column(text_buffer *t, const eitp_text *text) {
    text_format(t, "\t");
    for (size_t i = 0; i < text->size; i++)
        text_add(t, (unsigned char)text->bytes[i] < 0x20 ? " " : &text->bytes[i], 1);
}

void predicting_add_text_columns(const predicting *p, const eitp_text_pair *row, text_buffer *t) {
    if (!options_integer(&p->options, OPTION_WITH_TEXT))
        return;
    add_column(t, &row->first);
    if (row->second.bytes)
        add_column(t, &row->second);
}

eitp_status predicting_check_finite(const predicting *p, const float *values, eitp_error *error) {
    for (int64_t i = 0; i < eitp_predictor_width(p->predictor); i++) {
        if (!isfinite(values[i]))
            return command_fail(error, EITP_ERROR_NOT_FINITE,
                                "text %lld: the output of '%s' is not finite; use --precision fp32, or an earlier "
                                "checkpoint",
                                (long long)(p->texts_done + 1), trained_model_checkpoint(&p->trained));
    }
    return EITP_OK;
}

/* ---- The command ---- */

static void predicting_close(predicting *p) {
    eitp_predictor_destroy(p->predictor);
    trained_model_close(&p->trained);
    examples_close(p->examples);
    result_stream_discard(&p->output);
    free(p->rows);
    free(p->is_skipped);
    free(p->values);
    free(p->places);
    free(p->words);
    text_release(&p->texts);
    text_release(&p->lines);
    options_release(&p->options);
}

int predicting_command(const predicting_kind *kind, int count, char **arguments) {
    predicting p;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&p, 0, sizeof p);
    p.kind = kind;
    process_end_on_signals();
    status = options_read(&p.options, kind->name, kind->command, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&p.options, OPTION_PRINT_CONFIG)) {
        options_print(&p.options, (int)options_integer(&p.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended) {
        status = predicting_open(&p, &error);
        if (!status) {
            output_start();
            p.began = process_time();
            status = predict_all(&p, &error);
            if (!status)
                status = result_stream_finish(&p.output, &error);
        }
        if (!status)
            report(&p);
    }
    if (status)
        code = output_fail(&error);
    predicting_close(&p);
    return code;
}

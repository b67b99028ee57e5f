#include "wording.h"

/* Among rows that start alike the longer one comes first. */
typedef struct wording {
    const char *words, *option;
} wording;

static const wording wordings[] = {
    {"set problem to EITP_PROBLEM_MULTI_LABEL if examples may have none",
     "train with --labels several if samples may have none"},
    {"but problem is EITP_PROBLEM_SINGLE_LABEL", "but a sample has one; --labels several trains with any number"},
    {"unless problem is EITP_PROBLEM_REGRESSION", "unless they are numbers to predict"},
    {"train a new head (fresh_head) or use its labels", "use data with its labels"},
    {"(val_fraction", "(--val-fraction"},
    {"(set lora_modules_to_save to lm_head)", "(--lora-modules-to-save lm_head)"},
    {"set labels in eitp_transformer_config", "use data with the model's labels"},
    {"create one with eitp_labelled_pack", "give --data a table"},
    {"set segments in eitp_transformer_config", "use a model with as many token types"},
    {"number the labels of the data as the model does, or rename the model's with eitp_model_set_labels",
     "use data with the model's labels"},
    {"set head to EITP_HEAD_TOKEN_CLASSIFIER in eitp_transformer_config", "train one with --task tokens"},
    {"set head to EITP_HEAD_CLASSIFIER in eitp_transformer_config", "train one with --task classify"},
    {"save the weights with eitp_variables_save", "train another shape"},

    {"with eitp_pack or eitp_labelled_pack", "with 'eitp pack'"},
    {"leave its samples out, or name the model's labels as the data does with eitp_model_set_labels",
     "leave its rows out"},
    {"vocab_size, layers, heads, width and positions change",
     "--vocab-size, --layers, --heads, --width and --positions change"},
    {"lora_rank requires model", "--lora-rank requires --model"},
    {"freeze and lora_rank exclude", "--freeze and --lora-rank exclude"},
    {"was started with freeze", "was started with --freeze"},
    {"was started without freeze", "was started without --freeze"},
    {"was started with latent_input", "was started with --latent-input"},
    {"leave out encoder and latent_size", "leave out --encoder and --latent-size"},
    {"leave out lora_rank, or set freeze to", "leave out --lora-rank, or set --freeze to"},
    {"but init is a", "but --init is a"},
    {"set init as it was", "set --init as it was"},
    {"EITP_SCHEDULE_PLATEAU needs", "--lr-schedule plateau needs"},
    {"patience needs evaluations", "--patience needs evaluations"},
    {"name a file, or chatml, as chat_template", "name a file, or chatml, with --chat-template"},
    {"with free_bits", "with --free-bits"},
    {"set encoding to", "set --encoding to"},
    {"turn off strict_utf8", "use --no-strict-utf8"},
    {"with eitp_pack", "with 'eitp pack'"},
    {"eitp_build_info lists", "'eitp check-system' lists"},
    {"set a larger row_limit, or close", "divide it, or close"},
    {"set a larger row_limit", "divide it"},
    {"set skip_bad to go on with the next row", "--on-bad-row skip goes on with the next row"},
    {"set text_column to", "set --text-column to"},
    {"set pair_column to", "set --pair-column to"},
    {"set label_column to", "set --label-column to"},
    {"set weight_column to", "set --weight-column to"},
    {"or format to text", "or --data-format to text"},
    {"set format to", "set --data-format to"},
    {"delimiter '", "--delimiter '"},
    {"delimiter is for", "--delimiter is for"},
    {"text_column '", "--text-column '"},
    {"label_column '", "--label-column '"},
    {"document_separator", "--document-separator"},
    {"reference_tokenizer has", "the tokenizer of --reference-model has"},
    {"within the limit of matrix_side", "small enough"},
    {"vocabulary_size must", "--vocab-size must"},
    {"train on less text or with a smaller memory_limit", "train on less text, or close other programs"},
    {"at least max_length", "at least --block-size"},
    {"max_length is", "--block-size is"},
    {"sequence.max_length", "--block-size"},
    {"max_length must", "--block-size must"},
    {"pass_tokens must", "--pass-tokens must"},
    {"block_size must", "--block-size must"},
    {"block_size is above", "--block-size is above"},
    {"validation_fraction must", "--val-fraction must"},
    {"label_smoothing must", "--label-smoothing must"},
    {"minimum_frequency must", "--min-frequency must"},
    {"class_weights[", "--class-weights ["},
    {"class_weights must", "--class-weights must"},
    {"override with block_size", "override with --block-size"},
    {"block_size sets the length", "--block-size sets the length"},
    {"class_weights:", "--class-weights:"},
    {"and task mlm", "and --task mlm"},
    {"which task mlm needs", "which --task mlm needs"},
    {"train it with task", "train it with --task"},
    {"must be a multiple of heads", "must be a multiple of --heads"},
    {"drop_last:", "--drop-last:"},
    {"choose another name for their file", "choose another --offload-file"},
    {"lower batch_size or grad_accum", "lower --batch-size or --grad-accum"},
    {"keep_best:", "--keep-best:"},
    {"save_dtype:", "--save-dtype:"},
    {"lr_schedule plateau requires validation data; set val_data or val_fraction",
     "--lr-schedule plateau requires validation data; set --val-data or --val-fraction"},
    {"keep_best and patience require validation data; set val_data or val_fraction",
     "--keep-best and --patience require validation data; set --val-data or --val-fraction"},
    {"sample_prompt requires validation data, since samples are generated at evaluations; set val_data or val_fraction",
     "--sample-prompt requires validation data, since samples are generated at evaluations; set --val-data or "
     "--val-fraction"},
    {"sample_prompt has no effect: generated samples are written next to metrics.jsonl, and report_to",
     "--sample-prompt has no effect: generated samples are written next to metrics.jsonl, and --report-to"},
    {"sample_prompt:", "--sample-prompt:"},
    {"train a causal model for task lm", "train a causal model with --task lm"},
    {"override with tokenizer", "override with --tokenizer"},
    {"override with vocab_size", "override with --vocab-size"},
    {"with random weights set vocab_size to", "with --init set --vocab-size"},
    {"evaluate all samples (EITP_SAMPLES_ALL)", "evaluate with --split all"},
    {"name it as data", "name it with --data"},
    {"name its directory as model", "name its directory with --model"},
    {"name it as tokenizer", "name it with --tokenizer"},
    {"name one as tokenizer", "name one with --tokenizer"},
    {"name its own as tokenizer", "name its own with --tokenizer"},
    {"name their column as label_column, or set task to lm or mlm",
     "name their column with --label-column, or train a language model with --task lm or mlm"},
    {"is label_column the column", "is --label-column the column"},
    {"name it as weight_column if", "name it with --weight-column if"},
    {"weight_column is for labels: task is", "--weight-column is for labels: --task is"},
    {"name their column as label_column, or predict them with eitp_predict",
     "name their column with --label-column, or use 'eitp predict'"},
    {"name their column as label_column", "name their column with --label-column"},
    {"labels: the model's classifier", "--labels: the model's classifier"},
    {"leave labels out", "leave --labels out"},
    {"leave tokenizer out", "leave --tokenizer out"},
    {"latent_size is", "--latent-size is"},
    {"whole_words needs", "--whole-words needs"},
    {"temp_max has no effect", "--temp-max has no effect"},
    {"set task to", "train with --task"},
    {"dedup left them out", "--dedup left them out"},
    {"dedup leaves them out", "--dedup leaves them out"},
    {"dedup removes repeats within the data", "--dedup removes repeats within --data"},
    {"start a new run from the weights of", "start a new run from its weights with --model"},
    {"start a new run from the weights", "start a new run from the weights with --model"},
    {"the text of data has", "the text of --data has"},
    {"the text of val_data has", "the text of --val-data has"},
    {"must be the only path of data", "must be the only --data"},
    {"must be the only path of val_data", "must be the only --val-data"},
    {"batch_size and grad_accum changed", "--batch-size and --grad-accum changed"},
    {"schedule_steps changed", "the steps of the learning-rate schedule changed"},
    {"skip_spikes needs a spike_threshold", "--skip-spikes needs a --spike-threshold"},
};

/* Settings that no row above has with words around them. */
static const wording settings[] = {
    {"batch_size", "--batch-size"},
    {"grad_accum", "--grad-accum"},
    {"micro_batches_per_pass", "--micro-batches-per-pass"},
    {"dense_rows", "--dense-rows"},
    {"lora_rank", "--lora-rank"},
    {"output_dir", "--output-dir"},
    {"latent_size", "--latent-size"},
    {"latent_input", "--latent-input"},
    {"label_column", "--label-column"},
    {"block_size", "--block-size"},
    {"keep_best", "--keep-best"},
    {"eval_steps", "--eval-steps"},
    {"eval_windows", "--eval-windows"},
    {"log_dir", "--log-dir"},
    {"spot_samples", "--spot-samples"},
    {"temp_max", "--temp-max"},
    {"importance_samples", "--importance-samples"},
    {"layer_lr_decay", "--layer-lr-decay"},
    {"label_smoothing", "--label-smoothing"},
    {"class_weights", "--class-weights"},
    {"strict_utf8", "--strict-utf8"},
    {"cpu_mem_max", "--cpu-mem-max"},
    {"gpu_mem_max", "--gpu-mem-max"},
    {"auto_shrink", "--auto-shrink"},
    {"kl_weight", "--kl-weight"},
    {"kl_anneal", "--kl-anneal"},
    {"free_bits", "--free-bits"},
    {"warmup_steps", "--warmup-steps"},
    {"weight_decay", "--weight-decay"},
    {"report_to", "--report-to"},
    {"metrics_window", "--metrics-window"},
    {"vocab_size", "--vocab-size"},
    {"log_full_every", "--log-full-every"},
    {"validation_fraction", "--val-fraction"},
    {"data_workers", "--data-workers"},
    {"max_grad_norm", "--max-grad-norm"},
    {"sample_prompt", "--sample-prompt"},
    {"lr_schedule", "--lr-schedule"},
    {"val_data", "--val-data"},
    {"offload_file", "--offload-file"},
    {"save_dtype", "--save-dtype"},
    {"eval_epochs", "--eval-every-frac"},
    {"lora_modules_to_save", "--lora-modules-to-save"},
    {"offload_path", "--offload-file"},
    {"chat_template", "--chat-template"},
};

static int keeps_settings;

static int is_of_word(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
}

/* True if `text` starts with the words of a row. A name before a dot may be a file name. */
static int begins_with(const char *text, const wording *row) {
    const size_t size = strlen(row->words);
    if (strncmp(text, row->words, size) != 0)
        return 0;
    return !is_of_word(text[size - 1]) ||
           (!is_of_word(text[size]) && (text[size] != '.' || !is_of_word(text[size + 1])));
}

/* True if a position in a message follows a place in a configuration file, such as "run.yaml:3: ", whose names are
   kept. */
static int is_in_file(const char *message, const char *text) {
    const char *at = text - 2;
    if (text - message < 5 || at[0] != ':' || at[1] != ' ')
        return 0;
    while (at > message + 1 && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at < text - 2 && at[-1] == ':';
}

/* Returns the row whose words `text`, a part of a message, starts with, or NULL. */
static const wording *find_wording(const char *message, wording_source source, const char *text) {
    const int has_settings = source == WORDING_LIBRARY && !keeps_settings && !is_in_file(message, text);
    for (size_t i = 0; i < COMMAND_COUNT(wordings); i++) {
        if (begins_with(text, &wordings[i]))
            return &wordings[i];
    }
    for (size_t i = 0; i < COMMAND_COUNT(settings) && has_settings; i++) {
        if (begins_with(text, &settings[i]))
            return &settings[i];
    }
    return NULL;
}

void wording_disable_settings(void) {
    keeps_settings = 1;
}

/* For a message "<setting> changed from ...", writes the option and returns the rest; else returns the message. */
static const char *translate_changed(const char *message, wording_source source, char *text, size_t size,
                                     size_t *used) {
    size_t length = 0;
    while (is_of_word(message[length]))
        length++;
    if (source != WORDING_LIBRARY || keeps_settings || !length ||
        strncmp(message + length, " changed from ", 14) != 0 || find_wording(message, source, message) ||
        length + 3 > size)
        return message;
    text[(*used)++] = '-';
    text[(*used)++] = '-';
    for (size_t i = 0; i < length; i++)
        text[(*used)++] = message[i] == '_' ? '-' : message[i];
    return message + length;
}

void wording_translate(const char *message, wording_source source, char *text, size_t size) {
    size_t used = 0;
    const char *at = translate_changed(message, source, text, size, &used);
    while (*at && used + 1 < size) {
        /* Does not replace words within names and paths. */
        const int is_start = at == message || (!strchr("-./'", at[-1]) && !is_of_word(at[-1]));
        const wording *row = is_start ? find_wording(message, source, at) : NULL;
        if (!row) {
            text[used++] = *at++;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%s", row->option);
        at += strlen(row->words);
    }
    text[used < size ? used : size - 1] = 0;
}

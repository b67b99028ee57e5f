#include "wording.h"

/* Of rows that begin alike the longer one comes first. */
static const struct {
    const char *words, *option;
} wordings[] = {
    {"set problem to EITP_PROBLEM_MULTI_LABEL if examples may have none",
     "train with --labels several if texts may have none"},
    {"but problem is EITP_PROBLEM_SINGLE_LABEL", "but a text has one; --labels several trains with any number"},
    {"unless problem is EITP_PROBLEM_REGRESSION", "unless they are numbers to predict"},
    {"train a new head (fresh_head) or use its labels", "use data with its labels"},
    {"(set lora_modules_to_save to lm_head)", "(--lora-modules-to-save lm_head)"},
    {"set labels in eitp_transformer_config", "use data with the model's labels"},
    {"set segments in eitp_transformer_config", "use a model with as many token types"},
    {"number the labels of the data as the model does, or rename the model's with eitp_model_set_labels",
     "use data with the model's labels"},
    {"set head to EITP_HEAD_TOKEN_CLASSIFIER in eitp_transformer_config", "train one with --task tokens"},
    {"set head to EITP_HEAD_CLASSIFIER in eitp_transformer_config", "train one with --task classify"},
    {"save the weights with eitp_variables_save", "train another shape"},
    {"create one with eitp_labelled_pack", "give --data a table"},
    {"with eitp_pack", "with 'eitp pack'"},
    {"eitp_build_info lists", "'eitp check-system' lists"},
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
    {"sample_prompt requires validation data, since texts are written at evaluations; set val_data or val_fraction",
     "--sample-prompt requires validation data, since texts are written at evaluations; set --val-data or "
     "--val-fraction"},
    {"sample_prompt has no effect: its texts are written beside metrics.jsonl, and report_to",
     "--sample-prompt has no effect: its texts are written beside metrics.jsonl, and --report-to"},
    {"sample_prompt:", "--sample-prompt:"},
    {"train a causal model for task lm", "train a causal model with --task lm"},
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

/* The row whose words the text begins with, or -1. */
static int find_wording(const char *text) {
    for (size_t i = 0; i < COMMAND_COUNT(wordings); i++) {
        if (!strncmp(text, wordings[i].words, strlen(wordings[i].words)))
            return (int)i;
    }
    return -1;
}

void wording_translate(const char *message, char *text, size_t size) {
    size_t used = 0;
    const char *before = ""; /* words are not replaced within names and paths */
    while (*message && used + 1 < size) {
        const int is_start = !*before || !strchr("-_./'", *before);
        const int row = is_start ? find_wording(message) : -1;
        before = message;
        if (row < 0) {
            text[used++] = *message++;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%s", wordings[row].option);
        message += strlen(wordings[row].words);
    }
    text[used < size ? used : size - 1] = 0;
}

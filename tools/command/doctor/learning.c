/* Why a run does not learn. */
#include "doctor/advice.h"
#include "doctor/thresholds.h"

/* True if there are enough steps to decide. */
static int has_steps(const doctor_case *c) {
    return c->loss.points >= DOCTOR_LEAST_STEPS && isfinite(c->loss.first) && isfinite(c->loss.last);
}

/* True if the end of the run already explains that the model is damaged. */
static int is_damaged(const doctor_case *c) {
    return c->end == DOCTOR_END_DIVERGED || c->end == DOCTOR_END_NOT_FINITE;
}

static void measure_loss(const doctor_case *c, doctor_finding *f) {
    finding_measure(f, "loss %.4g in the first step, %.4g in the last ones (%s)", c->loss.first, c->loss.last,
                    recorded_task_loss(c->run));
    if (isfinite(c->base))
        finding_measure(f, "predicting frequencies alone has a loss of %.4g (run.json)", c->base);
}

static void measure_moved(const doctor_case *c, doctor_finding *f) {
    finding_measure(f,
                    "the updates of %lld steps moved the weights by %.2g times their norm, at a rate of %.3g "
                    "(update_norm, parameter_norm, lr)",
                    (long long)c->loss.points, c->moved, case_number(c, "lr"));
}

static double warmup_steps(const doctor_case *c) {
    const double steps = case_number(c, "warmup-steps"), ratio = case_number(c, "warmup-ratio");
    return steps > 0 ? steps : ratio > 0 ? ratio * (double)c->run->last_step : 0;
}

static int measure_alarm(const doctor_case *c, doctor_finding *f, const char *name) {
    const recorded_event *alarm = case_alarm(c, name);
    if (alarm)
        finding_measure(f, "after step %lld: %s (alarm)", (long long)alarm->step, alarm->message);
    return alarm != NULL;
}

/* ---- The learning rate ---- */

/* Returns the reason why the rate is too high, most certain first, or NULL if it is not. */
static const char *find_excess(const doctor_case *c) {
    const recorded_event *diverging = recorded_last_event(c->run, "diverging");
    const double spikes = (double)case_events(c, "spike");
    if (diverging && c->loss.last > DOCTOR_BASE * c->loss.first)
        return "the loss has diverged";
    if (has_steps(c) && c->loss.first > 0 && c->loss.last > DOCTOR_RISEN * c->loss.first && c->moved > DOCTOR_FALL)
        return "the loss has risen";
    if (has_steps(c) && c->grown > DOCTOR_GROWN && c->loss.last > DOCTOR_BASE * c->base)
        return "the weights have grown far beyond their initial size, and the loss is no better than predicting "
               "frequencies";
    if (diverging)
        return "the loss diverged during training";
    if (case_alarm(c, "exploding_gradient"))
        return "the gradient explodes";
    if (c->run->step >= 10 * DOCTOR_LEAST_STEPS && spikes > DOCTOR_SPIKE_SHARE * (double)c->run->step)
        return "the loss jumps repeatedly";
    return NULL;
}

static int look_at_high_rate(const doctor_case *c, doctor_finding *f) {
    const recorded_event *diverging = recorded_last_event(c->run, "diverging");
    const char *why = is_damaged(c) ? NULL : find_excess(c);
    if (!why)
        return 0;
    finding_say(f, "The learning rate is too high: %s.", why);
    measure_loss(c, f);
    measure_moved(c, f);
    if (diverging)
        finding_measure(f, "%s (metrics.jsonl)", diverging->message);
    measure_alarm(c, f, "exploding_gradient");
    if (case_events(c, "spike"))
        finding_measure(f, "%zu events \"spike\" (metrics.jsonl)", case_events(c, "spike"));
    advise_rate(c, f, c->grown > DOCTOR_GROWN ? 0.03 : 0.1);
    if (!(case_number(c, "max-grad-norm") > 0))
        finding_advise(f, "--max-grad-norm 1 clips gradients; a warm-up of a few percent of the steps also helps");
    return DOCTOR_FAILS;
}

/* True if no record shows a significant fall of the loss. */
static int is_flat(const doctor_case *c) {
    return has_steps(c) && c->fell < DOCTOR_FALL * fabs(c->loss.first);
}

/* True if the records rule out such a fall; a few noisy steps cannot. */
static int is_surely_flat(const doctor_case *c) {
    return is_flat(c) && c->fell_at_most < DOCTOR_FALL * fabs(c->loss.first);
}

/* True before the learning rate has reached its peak. */
static int is_warming_up(const doctor_case *c) {
    return !case_is_over(c) && c->run->step <= warmup_steps(c);
}

static void measure_flatness(const doctor_case *c, doctor_finding *f) {
    measure_loss(c, f);
    if (!c->is_pretrained && isfinite(c->guessing))
        finding_measure(f, "%.4g = ln %.0f is the loss of a uniform prediction over all tokens (model.vocabulary)",
                        c->guessing, exp(c->guessing));
    if (isfinite(c->fell_at_most))
        finding_measure(f, "in %lld steps it fell by at most %.2g (95 %% limit of the trend of loss)",
                        (long long)c->loss.points, c->fell_at_most);
    measure_moved(c, f);
}

/* Returns the power of ten that would move the weights by half their norm, or a pretrained model's by a twentieth,
   limited to the highest usual rate. */
static double find_better_factor(const doctor_case *c) {
    const double lr = case_number(c, "lr");
    const int is_tuned = c->is_pretrained && !(case_number(c, "lora-rank") > 0);
    const double factor = pow(10, floor(log10((is_tuned ? 0.05 : 0.5) / c->moved)));
    return fmin(factor, lr > 0 ? fmax((is_tuned ? 1e-4 : 1e-3) / lr, 10) : 10);
}

/* A model that was already good may have little to learn: its loss alone proves nothing unless its weights hardly
   move. */
static int look_at_low_rate(const doctor_case *c, doctor_finding *f) {
    const int is_good = c->is_pretrained && !(c->loss.last > DOCTOR_BASE * c->base);
    if (!is_flat(c) || is_damaged(c) || is_warming_up(c) || !(c->moved > 0) || !(c->moved < DOCTOR_MOVED_LITTLE))
        return 0;
    if (is_good && c->moved > DOCTOR_MOVED_NOTHING && !is_surely_flat(c))
        return 0;
    finding_say(f, "The learning rate is too low: the weights have hardly moved, and the loss has not fallen.");
    measure_flatness(c, f);
    advise_rate(c, f, find_better_factor(c));
    return DOCTOR_FAILS;
}

/* A language model learns frequencies in its first steps, at any rate that moves its weights. */
static int look_at_flat_loss(const doctor_case *c, doctor_finding *f) {
    const int is_moved = c->moved >= DOCTOR_MOVED_FAR || (c->moved >= DOCTOR_MOVED_LITTLE && !(c->fell > 0));
    if (!is_surely_flat(c) || !is_moved || c->is_pretrained || !(c->loss.last > DOCTOR_BASE * c->base) ||
        !isfinite(c->guessing) || is_damaged(c) || is_warming_up(c) || find_excess(c))
        return 0;
    finding_say(f, "The loss has not fallen: the model has learned nothing.");
    measure_flatness(c, f);
    advise_rate(c, f, c->moved >= DOCTOR_MOVED_FAR ? 0.1 : 10);
    advise_again(c, f, "--show-data 3    # check that there is something to learn");
    return DOCTOR_FAILS;
}

static int look_at_frozen(const doctor_case *c, doctor_finding *f) {
    const char *freeze = case_option(c, "freeze");
    if (!has_steps(c) || c->moved > 0 || !isfinite(c->moved) || is_damaged(c))
        return 0;
    /* With a single label the gradient is 0, which is another finding. */
    if (c->labels > 0 && c->labels < 2)
        return 0;
    finding_say(f, "Nothing is being trained: no update has changed a weight.");
    measure_loss(c, f);
    finding_measure(f, "the updates of %lld steps add up to 0 (update_norm); lr %.3g, freeze \"%s\" (run.json)",
                    (long long)c->loss.points, case_number(c, "lr"), freeze);
    if (case_number(c, "lr") > 0)
        advise_again(c, f, "--freeze embeddings");
    else
        advise_again(c, f, "--lr 3e-4");
    return DOCTOR_FAILS;
}

static int look_at_warmup(const doctor_case *c, doctor_finding *f) {
    const double planned = (double)c->run->last_step, warmup = warmup_steps(c);
    char *option;
    if (!(planned >= DOCTOR_LEAST_STEPS) || warmup < DOCTOR_WARMUP_SHARE * planned)
        return 0;
    finding_say(f, "Warm-up takes most of the run: %.0f of %.0f steps.", warmup, planned);
    finding_measure(f, "warmup-steps, warmup-ratio and steps (run.json)");
    option = command_format("--warmup-steps %.0f", ceil(0.05 * planned));
    advise_again(c, f, option);
    free(option);
    return DOCTOR_POOR;
}

static int look_at_skipped(const doctor_case *c, doctor_finding *f) {
    const double skipped = case_mean(c, "perf/skipped_percent");
    if (is_damaged(c) || !(skipped > DOCTOR_SKIPPED_PERCENT))
        return 0;
    finding_say(f, "Many steps are skipped because of non-finite numbers or gradient spikes: %.0f %%.", skipped);
    finding_measure(f, "%.3g %% of the steps (perf/skipped_percent)", skipped);
    finding_advise(
        f,
        "--check-finite op names the op where such numbers first appear; --precision bf16 or fp32 does not overflow");
    advise_rate(c, f, 0.3);
    return DOCTOR_POOR;
}

/* ---- The data ---- */

static int look_at_single_label(const doctor_case *c, doctor_finding *f) {
    if (!(c->labels < 2) && !(c->majority > DOCTOR_MAJORITY_SHARE))
        return 0;
    if (c->labels < 2)
        finding_say(f, "All samples have the same label, so there is nothing to learn.");
    else
        finding_say(f, "Almost all samples have the same label: %.0f %%.", 100 * c->majority);
    finding_measure(f, "%.0f labels occur, the most frequent in %.3g %% of the samples (data.labels in run.json)",
                    c->labels, 100 * c->majority);
    finding_advise(f, "check --label-column; a sorted file needs --val-data, or its validation part has other labels");
    if (c->labels >= 2)
        advise_again(c, f, "--class-weights balanced --keep-best macro_f1");
    return c->labels < 2 ? DOCTOR_FAILS : DOCTOR_POOR;
}

/* True if the validation samples are from a separate file. */
static int has_own_validation(const doctor_case *c) {
    return recorded_at(c->run->configuration, "val-data") != NULL;
}

/* Returns the number of samples in the packed file; the validation samples are unknown with --eval no. */
static double all_samples(const doctor_case *c) {
    const double validation = recorded_number(c->run->run, "data.validation_samples");
    return recorded_number(c->run->run, "data.training_samples") +
           (has_own_validation(c) || !isfinite(validation) ? 0 : validation);
}

/* Returns the share of all samples that a count of the data has, such as "data.repeated"; 0 if unknown. */
static double share_of_samples(const doctor_case *c, const char *name) {
    const double share = recorded_number(c->run->run, name) / all_samples(c);
    return isfinite(share) ? fmin(share, 1) : 0;
}

/* True if no evaluation is significantly better than predicting the most frequent label, in accuracy or loss. */
static int validation_fails(const doctor_case *c) {
    const double error = isfinite(c->accuracy_error) ? c->accuracy_error : 0;
    return c->best && isfinite(c->base) && c->majority <= DOCTOR_MAJORITY_SHARE &&
           c->accuracy <= c->majority + 2 * error && c->best->loss > DOCTOR_BASE * c->base;
}

static void measure_validation(const doctor_case *c, doctor_finding *f) {
    if (c->best)
        finding_measure(f,
                        "validation: best accuracy %.3g (standard error %.2g); the most frequent label alone gives "
                        "%.3g; loss %.4g (val_accuracy, val_loss)",
                        c->accuracy, c->accuracy_error, c->majority, c->best->loss);
}

static int look_at_labels(const doctor_case *c, doctor_finding *f) {
    const double ambiguous = share_of_samples(c, "data.ambiguous");
    /* With --dedup such samples were already dropped. */
    const int contradicts =
        ambiguous > DOCTOR_AMBIGUOUS_SHARE && !(case_number(c, "dedup") > 0) && recorded_at(c->run->run, "data.labels");
    const int fails = has_steps(c) && c->epochs >= DOCTOR_EPOCHS && c->moved > DOCTOR_MOVED_LITTLE &&
                      !(c->grown > DOCTOR_GROWN) && c->labels >= 2 && validation_fails(c);
    const int memorises = fails && c->loss.last < DOCTOR_MEMORISED * c->base;
    if (!contradicts && !fails)
        return 0;
    if (contradicts)
        finding_say(f,
                    "The labels contradict each other, as if they were shuffled: %.0f %% of the samples have text that "
                    "also occurs with another label.",
                    100 * ambiguous);
    else if (memorises)
        finding_say(f, "The labels do not depend on the text, as if they were shuffled: the model memorizes its "
                       "samples and predicts new ones no better than the most frequent label.");
    else
        finding_say(f,
                    "The labels do not depend on the text, as if they were shuffled: in %.3g epochs the model found "
                    "nothing that predicts them.",
                    c->epochs);
    if (ambiguous > 0)
        finding_measure(f, "%.0f of %.0f samples (data.ambiguous in run.json)",
                        recorded_number(c->run->run, "data.ambiguous"), all_samples(c));
    measure_validation(c, f);
    measure_loss(c, f);
    finding_advise(f,
                   "look at some rows: does --label-column match --text-column? Were the columns sorted separately?");
    if (!contradicts)
        advise_rate(c, f, 0.3);
    return fails ? DOCTOR_FAILS + 1 : DOCTOR_POOR;
}

/* If validation samples are split from the same data, duplicates are in both parts, and validation does not measure new
   samples. */
static int look_at_duplicates(const doctor_case *c, doctor_finding *f) {
    const double repeated = recorded_number(c->run->run, "data.repeated"), share = share_of_samples(c, "data.repeated");
    if (!(share > DOCTOR_REPEATED_SHARE) || case_number(c, "dedup") > 0)
        return 0;
    finding_say(f, "Many samples are duplicates: %.0f %% of them repeat another one%s.", 100 * share,
                has_own_validation(c) ? "" : ", so validation uses samples that were trained on");
    finding_measure(f, "%.0f of %.0f samples (data.repeated in run.json)", repeated, all_samples(c));
    advise_again(c, f, "--dedup");
    return has_own_validation(c) ? DOCTOR_REMARK : DOCTOR_POOR - 1;
}

static int look_at_tokenizer(const doctor_case *c, doctor_finding *f) {
    const double tokens = recorded_number(c->run->run, "data.tokens_per_byte");
    const double entropy = recorded_number(c->run->run, "data.unigram_entropy");
    const double vocabulary = recorded_number(c->run->run, "model.vocabulary");
    const double unknown = recorded_number(c->run->run, "data.unknown_percent");
    const int is_fine = tokens > DOCTOR_TOKENS_PER_BYTE && vocabulary > DOCTOR_BYTE_VOCABULARY;
    /* Without a tokenizer the tokens are bytes by choice. */
    if (unknown > DOCTOR_UNKNOWN_PERCENT)
        finding_say(f, "The tokenizer does not fit the text: %.0f %% of the words are unknown to it.", unknown);
    else if (*case_option(c, "tokenizer") && is_fine)
        finding_say(f, "The tokenizer does not fit the text: it splits it into single bytes, %.2g tokens per byte.",
                    tokens);
    else if (*case_option(c, "tokenizer") && entropy < DOCTOR_LEAST_ENTROPY)
        finding_say(f, "The tokenizer does not fit the text: most of its tokens are the same one.");
    else
        return 0;
    if (isfinite(unknown))
        finding_measure(f, "%.3g %% of the tokens are unknown words (data.unknown_percent in run.json)", unknown);
    if (isfinite(tokens))
        finding_measure(f,
                        "%.3g tokens per byte, a vocabulary of %.0f, %.3g nats per token from frequencies alone "
                        "(data.tokens_per_byte, model.vocabulary, data.unigram_entropy in run.json)",
                        tokens, vocabulary, entropy);
    finding_advise(f, "eitp tokenizer train --data DATA --vocab-size %.0f --output tok", fmax(vocabulary, 1000));
    advise_again(c, f, "--tokenizer tok");
    return DOCTOR_POOR + 2;
}

/* ---- Progress ---- */

static int look_at_overfitting(const doctor_case *c, doctor_finding *f) {
    const recorded_evaluation *best = recorded_best_evaluation(c->run), *last = recorded_last_evaluation(c->run);
    char *directory;
    if (!case_alarm(c, "overfitting") || !best || !last || !(last->loss > best->loss))
        return 0;
    finding_say(f, "The run overfits: its validation loss was lowest after step %lld and has risen since.",
                (long long)best->step);
    measure_alarm(c, f, "overfitting");
    directory = advice_quote(c->run->directory);
    finding_advise(f, "eitp eval --model %s    # its best checkpoint, if --keep-best kept it", directory);
    free(directory);
    advise_again(c, f, "--keep-best loss --patience 3");
    finding_advise(f, "more data, more --dropout or --weight-decay, or fewer epochs");
    return DOCTOR_POOR;
}

/* After a recovery the run has more active units at its end than at the alarm. */
static int look_at_collapse(const doctor_case *c, doctor_finding *f) {
    const recorded_event *alarm = case_alarm(c, "posterior_collapse");
    const recorded_evaluation *last = recorded_last_evaluation(c->run);
    const double units = last ? recorded_number(last->record, "val_active_units") : (double)NAN;
    if (!alarm || units > 2 * recorded_number(alarm->record, "value") + 1)
        return 0;
    finding_say(f, "The posterior has collapsed: the decoder ignores the latent variable.");
    measure_alarm(c, f, "posterior_collapse");
    if (isfinite(units))
        finding_measure(f,
                        "%.0f active units, %.3g nats of mutual information (val_active_units, "
                        "val_mutual_information of the last evaluation)",
                        units, recorded_number(last->record, "val_mutual_information"));
    advise_again(c, f, "--free-bits 0.3 --word-dropout 0.4");
    finding_advise(f, "--kl-anneal cyclical, or a lower --kl-weight");
    return DOCTOR_POOR;
}

static int look_at_layers(const doctor_case *c, doctor_finding *f) {
    if (!case_alarm(c, "dead_layer"))
        return 0;
    finding_say(f, "A layer does not train: no gradient reaches it.");
    measure_alarm(c, f, "dead_layer");
    advise_rate(c, f, 0.3);
    return DOCTOR_POOR;
}

static int look_at_gradient(const doctor_case *c, doctor_finding *f) {
    if (!case_alarm(c, "vanishing_gradient") || is_damaged(c))
        return 0;
    finding_say(f, "The gradient has vanished: layers are saturated, or training has converged.");
    measure_alarm(c, f, "vanishing_gradient");
    measure_loss(c, f);
    advise_rate(c, f, 0.3);
    return DOCTOR_POOR - 1;
}

static int look_at_plateau(const doctor_case *c, doctor_finding *f) {
    const recorded_event *alarm = case_alarm(c, "plateau");
    if (!alarm || c->falls > 0 || c->loss.last < DOCTOR_BASE * recorded_number(alarm->record, "value"))
        return 0;
    finding_say(f, "The loss has stopped falling.");
    measure_alarm(c, f, "plateau");
    measure_loss(c, f);
    advise_rate(c, f, 0.3);
    finding_advise(f, "--lr-schedule cosine or plateau lowers the rate automatically; or the model can do no better");
    return DOCTOR_REMARK;
}

static int look_at_length(const doctor_case *c, doctor_finding *f) {
    const int is_over = c->end == DOCTOR_END_FINISHED || c->end == DOCTOR_END_OF_DATA;
    const int is_poor = c->loss.last > c->base;
    char *option;
    if (!is_over || !has_steps(c) || !(c->falls > DOCTOR_FALL * fabs(c->loss.last)) ||
        !(c->moved >= DOCTOR_MOVED_LITTLE) || c->grown > DOCTOR_GROWN)
        return 0;
    if (is_poor)
        finding_say(f,
                    "The run has too few steps: it ended while its loss was still falling, before it was better than "
                    "frequencies alone.");
    else
        finding_say(f, "The loss was still falling when the run ended: more steps would give a better model.");
    measure_loss(c, f);
    finding_measure(f, "in the last third of the steps it fell by %.3g (trend of loss, p < %g); %.2g epochs", c->falls,
                    DOCTOR_TREND_P, c->epochs);
    option = command_format("--steps %.0f", (double)c->run->step * (is_poor ? 10 : 2));
    advise_again(c, f, option);
    free(option);
    return is_poor ? DOCTOR_POOR + 1 : DOCTOR_REMARK;
}

const doctor_rule *doctor_learning(size_t *count) {
    static const doctor_rule rules[] = {{"rate-too-high", look_at_high_rate}, {"rate-too-low", look_at_low_rate},
                                        {"flat-loss", look_at_flat_loss},     {"frozen", look_at_frozen},
                                        {"warm-up", look_at_warmup},          {"skipped-steps", look_at_skipped},
                                        {"one-label", look_at_single_label},  {"labels", look_at_labels},
                                        {"duplicates", look_at_duplicates},   {"tokenizer", look_at_tokenizer},
                                        {"overfitting", look_at_overfitting}, {"collapse", look_at_collapse},
                                        {"dead-layer", look_at_layers},       {"vanishing-gradient", look_at_gradient},
                                        {"plateau", look_at_plateau},         {"too-few-steps", look_at_length}};
    *count = COMMAND_COUNT(rules);
    return rules;
}

#include "task/description.h"

#include "base/unicode.h"

/* ---- Counting ---- */

/* Chooses the most frequent labels; of equally frequent ones, the first. */
static void eitp__confusion_choose(eitp__confusion *confusion, const eitp__outcomes *outcomes) {
    const int64_t most = EITP__DESCRIBED_LABELS, labels = outcomes->labels;
    int64_t before = -1, support = INT64_MAX, *chosen = confusion->labels;
    confusion->has_others = labels > most;
    confusion->count = confusion->has_others ? most : labels;
    for (int64_t n = 0; n < confusion->count; n++) {
        int64_t best = -1, at = n;
        for (int64_t k = 0; k < labels; k++) {
            const int64_t own = outcomes->by_label[k].is_true;
            const int is_left = own < support || (own == support && k > before);
            if (is_left && (best < 0 || own > outcomes->by_label[best].is_true))
                best = k;
        }
        before = best;
        support = outcomes->by_label[best].is_true;
        for (; at > 0 && chosen[at - 1] > best; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = best;
    }
}

/* Returns the index of a label among the shown labels; all other labels share the index after them. */
static int64_t eitp__confusion_place(const eitp__confusion *confusion, int64_t label) {
    int64_t low = 0, high = confusion->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (confusion->labels[middle] < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < confusion->count && confusion->labels[low] == label ? low : confusion->count;
}

static void eitp__confusion_add(eitp__confusion *confusion, int64_t is_true, int64_t predicted, int64_t count) {
    const int64_t size = confusion->count + confusion->has_others;
    const int64_t row = eitp__confusion_place(confusion, is_true), column = eitp__confusion_place(confusion, predicted);
    confusion->counts[row * size + column] += count;
}

static void eitp__confusion_count_labels(eitp__confusion *confusion, const eitp__outcomes *outcomes) {
    for (int64_t n = 0; n < confusion->count; n++) {
        const eitp__label_counts *counts = &outcomes->by_label[confusion->labels[n]];
        confusion->counts[3 * n] = counts->is_true;
        confusion->counts[3 * n + 1] = counts->is_predicted;
        confusion->counts[3 * n + 2] = counts->is_both;
    }
}

EITP__PRIVATE void eitp__confusion_count(eitp__confusion *confusion, const eitp__outcomes *outcomes) {
    const int64_t labels = outcomes->labels;
    memset(confusion, 0, sizeof *confusion);
    if (outcomes->problem == EITP_PROBLEM_REGRESSION ||
        (outcomes->problem == EITP_PROBLEM_TOKENS && !outcomes->confusion))
        return;
    eitp__confusion_choose(confusion, outcomes);
    if (outcomes->problem == EITP_PROBLEM_MULTI_LABEL) {
        eitp__confusion_count_labels(confusion, outcomes);
        return;
    }
    for (int64_t i = 0; i < outcomes->count && outcomes->problem == EITP_PROBLEM_SINGLE_LABEL; i++)
        eitp__confusion_add(confusion, outcomes->is_true[i], outcomes->predicted[i], 1);
    for (int64_t i = 0; i < labels * labels && outcomes->problem == EITP_PROBLEM_TOKENS; i++) {
        if (outcomes->confusion[i])
            eitp__confusion_add(confusion, i / labels, i % labels, outcomes->confusion[i]);
    }
}

/* ---- Text ---- */

/* Returns the number of leading bytes of a text of `size` bytes that are whole characters, at most `limit`. */
static size_t eitp__whole_characters(const char *text, size_t size, size_t limit) {
    const size_t cut = size < limit ? size : limit;
    return cut - eitp__utf8_incomplete((const unsigned char *)text, cut);
}

static int eitp__is_around_text(const eitp_tokenizer *tokenizer, int32_t id) {
    static const eitp_special_token around[] = {EITP_END_OF_TEXT, EITP_BEGIN_OF_TEXT, EITP_PADDING, EITP_CLASSIFIER,
                                                EITP_SEPARATOR};
    for (size_t i = 0; i < EITP__COUNT(around); i++) {
        if (id == eitp_tokenizer_special(tokenizer, around[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE void eitp__describe_ids(eitp__buffer *text, const eitp_tokenizer *tokenizer, const int32_t *ids,
                                      int64_t count, size_t limit) {
    int32_t kept[EITP__MISTAKE_IDS];
    char decoded[EITP__DESCRIBED_TEXT + 4];
    size_t size = 0, used = 0;
    for (int64_t i = 0; i < count && used < EITP__COUNT(kept); i++) {
        if (!eitp__is_around_text(tokenizer, ids[i]))
            kept[used++] = ids[i];
    }
    if (eitp_tokenizer_decode(tokenizer, kept, used, decoded, sizeof decoded, &size, NULL)) {
        eitp__buffer_add_text(text, "null");
        return;
    }
    size = size < sizeof decoded ? size : sizeof decoded;
    eitp__json_write_text(text, decoded, eitp__whole_characters(decoded, size, limit));
}

static void eitp__describe_label(eitp__buffer *text, const eitp_model *model, int64_t label) {
    const char *name = eitp_model_label(model, label);
    if (name)
        eitp__json_write_text(text, name, eitp__whole_characters(name, strlen(name), EITP__DESCRIBED_NAME));
    else
        eitp__buffer_add_text(text, "null");
}

/* ---- Writing ---- */

static void eitp__describe_confusion(eitp__buffer *text, const eitp_model *model, const eitp__confusion *confusion) {
    const int64_t size = confusion->count + confusion->has_others;
    eitp__buffer_add_text(text, "\"confusion\": {\"labels\": [");
    for (int64_t n = 0; n < confusion->count; n++) {
        eitp__buffer_add_text(text, n ? ", " : "");
        eitp__describe_label(text, model, confusion->labels[n]);
    }
    eitp__buffer_format(text, "], \"others\": %s, \"counts\": [", confusion->has_others ? "true" : "false");
    for (int64_t i = 0; i < size * size; i++)
        eitp__buffer_format(text, "%s%lld%s",
                            i % size ? ", "
                            : i      ? ", ["
                                     : "[",
                            (long long)confusion->counts[i], i % size == size - 1 ? "]" : "");
    eitp__buffer_add_text(text, "]}, ");
}

static void eitp__describe_label_counts(eitp__buffer *text, const eitp_model *model, const eitp__confusion *confusion) {
    eitp__buffer_add_text(text, "\"labels\": [");
    for (int64_t n = 0; n < confusion->count; n++) {
        const int64_t *counts = confusion->counts + 3 * n;
        eitp__buffer_add_text(text, n ? ", {\"label\": " : "{\"label\": ");
        eitp__describe_label(text, model, confusion->labels[n]);
        eitp__buffer_format(text, ", \"true\": %lld, \"predicted\": %lld, \"both\": %lld}", (long long)counts[0],
                            (long long)counts[1], (long long)counts[2]);
    }
    eitp__buffer_format(text, "], \"others\": %s, ", confusion->has_others ? "true" : "false");
}

/* Adds the predicted and the true label or value. */
static void eitp__describe_outcome(eitp__buffer *text, eitp_problem problem, const eitp_model *model,
                                   const eitp_mistake *mistake) {
    eitp__buffer_add_text(text, ", \"label\": ");
    eitp__describe_label(text, model, mistake->label);
    if (problem == EITP_PROBLEM_REGRESSION) {
        eitp__buffer_add_text(text, ", \"target\": ");
        eitp__json_write_number(text, mistake->target);
        eitp__buffer_add_text(text, ", \"predicted\": ");
        eitp__json_write_number(text, mistake->number);
        return;
    }
    eitp__buffer_add_text(text, ", \"predicted\": ");
    if (problem == EITP_PROBLEM_MULTI_LABEL)
        eitp__buffer_add_text(text, mistake->predicted ? "true" : "false");
    else
        eitp__describe_label(text, model, mistake->predicted);
    eitp__buffer_add_text(text, ", \"probability\": ");
    eitp__json_write_number(text, mistake->probability);
}

static void eitp__describe_mistake(eitp__buffer *text, eitp_problem problem, const eitp_model *model,
                                   const eitp_tokenizer *tokenizer, const eitp_mistake *mistake) {
    eitp__buffer_format(text, "{\"sample\": %llu", (unsigned long long)mistake->sample);
    if (problem == EITP_PROBLEM_TOKENS)
        eitp__buffer_format(text, ", \"row\": %lld", (long long)mistake->row);
    eitp__describe_outcome(text, problem, model, mistake);
    if (tokenizer && problem == EITP_PROBLEM_TOKENS) {
        eitp__buffer_add_text(text, ", \"word\": ");
        eitp__describe_ids(text, tokenizer, mistake->word, mistake->word_count, EITP__DESCRIBED_WORD);
    }
    if (tokenizer) {
        eitp__buffer_add_text(text, ", \"text\": ");
        eitp__describe_ids(text, tokenizer, mistake->ids, mistake->id_count, EITP__DESCRIBED_TEXT);
    }
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE void eitp__describe_evaluation(eitp__buffer *text, eitp_problem problem, const eitp_model *model,
                                             const eitp_tokenizer *tokenizer, const eitp__confusion *confusion,
                                             const eitp_mistake *mistakes, int64_t mistake_count) {
    eitp__buffer_add_text(text, "{");
    if (confusion->count && problem == EITP_PROBLEM_MULTI_LABEL)
        eitp__describe_label_counts(text, model, confusion);
    else if (confusion->count)
        eitp__describe_confusion(text, model, confusion);
    eitp__buffer_add_text(text, "\"mistakes\": [");
    for (int64_t i = 0; i < mistake_count; i++) {
        eitp__buffer_add_text(text, i ? ", " : "");
        eitp__describe_mistake(text, problem, model, tokenizer, &mistakes[i]);
    }
    eitp__buffer_add_text(text, "]}");
}

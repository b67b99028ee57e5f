#include "plan/arithmetic.h"

static const struct {
    eitp_component component;
    const char *key, *name;
} components[] = {{EITP_COMPONENT_EMBEDDING, "embedding", "embedding"},
                  {EITP_COMPONENT_PROJECTIONS, "attention_projections", "attention: projections"},
                  {EITP_COMPONENT_ATTENTION, "attention_scores", "attention: scores, values"},
                  {EITP_COMPONENT_MLP, "mlp", "MLP"},
                  {EITP_COMPONENT_OTHER, "other", "norms and other"},
                  {EITP_COMPONENT_HEAD, "head", "head and loss"},
                  {EITP_COMPONENT_OPTIMIZER, "optimizer", "optimizer"}};

/* A power of 1000 and its prefix. */
typedef struct operation_unit {
    double size;
    const char *name;
} operation_unit;

/* Returns the largest unit in which a number of operations is at least ten. */
static operation_unit unit_of(double operations) {
    static const operation_unit units[] = {{1e3, "kF"}, {1e6, "MF"}, {1e9, "GF"}, {1e12, "TF"}, {1e15, "PF"}};
    size_t i = 0;
    while (i + 1 < COMMAND_COUNT(units) && operations >= 10 * units[i + 1].size)
        i++;
    return units[i];
}

static void add_line(text_buffer *t, const char *name, const eitp_flops *flops, double unit, double token_unit) {
    text_format(t, "    %-26s %9.2f %9.2f %10.2f %9.2f %12.2f\n", name, flops->forward / unit, flops->backward / unit,
                flops->recomputed / unit, flops->total / unit, flops->total / token_unit);
}

void arithmetic_add_table(text_buffer *t, const eitp_fit_candidate *candidate, int64_t tokens) {
    const operation_unit unit = unit_of(candidate->flops), token_unit = unit_of(candidate->flops / (double)tokens);
    const double per_token = token_unit.size * (double)tokens;
    char title[40];
    eitp_flops sum;
    memset(&sum, 0, sizeof sum);
    snprintf(title, sizeof title, "%s per token", token_unit.name);
    text_format(t, "    %s%-24s %9s %9s %10s %9s %12s\n", unit.name, " per step", "forward", "backward", "recomputed",
                "total", title);
    for (size_t i = 0; i < COMMAND_COUNT(components); i++) {
        const eitp_flops *flops = &candidate->components[components[i].component];
        sum.forward += flops->forward;
        sum.backward += flops->backward;
        sum.recomputed += flops->recomputed;
        sum.total += flops->total;
        add_line(t, components[i].name, flops, unit.size, per_token);
    }
    add_line(t, "total", &sum, unit.size, per_token);
}

void arithmetic_add_json(text_buffer *t, const eitp_fit_candidate *candidate) {
    text_json_name(t, "flops_by_component");
    text_format(t, "{");
    for (size_t i = 0; i < COMMAND_COUNT(components); i++) {
        const eitp_flops *flops = &candidate->components[components[i].component];
        text_json_name(t, components[i].key);
        text_format(t, "{");
        text_json_member_number(t, "forward", flops->forward);
        text_json_member_number(t, "backward", flops->backward);
        text_json_member_number(t, "recomputed", flops->recomputed);
        text_json_member_number(t, "total", flops->total);
        text_format(t, "}");
    }
    text_format(t, "}");
}

/* eitp embed: turns text into vectors. */
#include "use/predictor.h"

static eitp_status write_row(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                             eitp_error *error) {
    const int json = (int)options_integer(&p->options, OPTION_JSON);
    eitp_status status = predicting_check_finite(p, values, error);
    if (status)
        return status;
    if (json) {
        text_format(t, "{");
        predicting_add_text_members(p, row, t);
        text_json_name(t, "embedding");
        text_format(t, "[");
    }
    for (int64_t i = 0; i < eitp_predictor_width(p->predictor); i++) {
        text_format(t, !i ? "" : json ? ", " : "\t");
        predicting_add_float(t, values[i]);
    }
    if (!json)
        predicting_add_text_columns(p, row, t);
    text_format(t, json ? "]}\n" : "\n");
    return EITP_OK;
}

int command_embed(int count, char **arguments) {
    static const predicting_kind kind = {"embed", OPTIONS_EMBED, 1, write_row};
    return predicting_command(&kind, count, arguments);
}

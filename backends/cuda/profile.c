#include "backends/cuda/profile.h"

#include "backends/cuda/blas.h"
#include "base/log.h"

#if EITP__WITH_CUDA

/* ---- The work of launches ---- */

EITP__PRIVATE void eitp__cuda_work_name(const eitp__cuda_kernel *kernels, size_t count, const char *purpose,
                                        char text[EITP__CUDA_WORK_NAME]) {
    static const char suffix[] = "_kernel";
    size_t length = 0;
    text[0] = 0;
    for (size_t k = 0; k < count && length < EITP__CUDA_WORK_NAME; k++) {
        const char *name = kernels[k].entry ? kernels[k].stage->kernel : "cuBLASLt_kernel";
        length += (size_t)snprintf(text + length, EITP__CUDA_WORK_NAME - length, "%s`%.*s`", k ? " " : "",
                                   (int)(strlen(name) - (sizeof suffix - 1)), name);
    }
    if (*purpose && length < EITP__CUDA_WORK_NAME)
        snprintf(text + length, EITP__CUDA_WORK_NAME - length, ", %s", purpose);
}

static double eitp__used_bytes(const eitp__operand *operands, int count, int64_t rows) {
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)eitp__operand_used(&operands[i], rows) * (double)eitp_dtype_size(operands[i].dtype);
    return bytes;
}

EITP__PRIVATE void eitp__cuda_part_work(const eitp__call *part, int is_product, eitp__call_work *work) {
    work->bytes = eitp__used_bytes(part->inputs, part->input_count, work->rows) +
                  eitp__used_bytes(part->outputs, part->output_count, work->rows);
    if (is_product)
        return;
    work->flops = 0;
    work->purpose = "";
}

EITP__PRIVATE double eitp__cuda_launch_bytes(const eitp__cuda_kernel *kernels, size_t count, size_t k,
                                             const eitp__call *call, double operands) {
    const eitp__cuda_kernels *entry = kernels[k].entry;
    const size_t first = kernels[0].entry == eitp__cuda_blas_clear();
    double bytes = k == first ? operands : 0;
    if (count > 1 && entry && entry != eitp__cuda_blas_clear() && entry->workspace)
        bytes += (double)entry->workspace(call);
    return bytes;
}

/* ---- The profile ---- */

EITP__PRIVATE eitp_status eitp__cuda_profile_open(eitp__cuda_profile *profile, const eitp_host *host,
                                                  const eitp__cuda_driver *driver, eitp_error *error) {
    const char *name = getenv("EITP_CUDA_PROFILE"), *graph = getenv("EITP_CUDA_GRAPH");
    memset(profile, 0, sizeof *profile);
    profile->host = host;
    profile->driver = driver;
    profile->is_on = name && !strcmp(name, "1");
    if (name && *name && strcmp(name, "0") != 0 && !profile->is_on)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown value '%s' in EITP_CUDA_PROFILE (choose from 0, 1)",
                          name);
    if (profile->is_on && graph && !strcmp(graph, "1"))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "EITP_CUDA_PROFILE=1 launches kernels one by one, which EITP_CUDA_GRAPH=1 forbids; unset one "
                          "of them");
    return EITP_OK;
}

EITP__PRIVATE void eitp__cuda_profile_close(eitp__cuda_profile *profile) {
    for (size_t i = 0; i < profile->time_count; i++)
        profile->driver->event_destroy(profile->times[i].before);
    eitp__release(profile->host, profile->times, profile->time_capacity * sizeof *profile->times);
    eitp__release(profile->host, profile->rows, profile->capacity * sizeof *profile->rows);
    memset(profile, 0, sizeof *profile);
}

EITP__PRIVATE void eitp__cuda_profile_stop(eitp__cuda_profile *profile, const eitp_error *reason) {
    profile->is_on = 0;
    eitp__log_line(profile->host, EITP_LOG_WARNING,
                   "cannot measure the times of GPU kernels (%s); EITP_CUDA_PROFILE is off from here on",
                   reason->message);
}

EITP__PRIVATE int eitp__cuda_profile_reserve(eitp__cuda_profile *profile, size_t units) {
    eitp_error error;
    eitp_status status = EITP_OK;
    if (!eitp__reserve(profile->host, (void **)&profile->times, &profile->time_capacity, units + 1,
                       sizeof *profile->times) ||
        !eitp__reserve(profile->host, (void **)&profile->rows, &profile->capacity, profile->count + units,
                       sizeof *profile->rows))
        status = eitp__fail_memory(&error, units * sizeof *profile->rows, "the times of kernels");
    while (!status && profile->time_count <= units) {
        status = eitp__cuda_check(profile->driver,
                                  profile->driver->event_create(&profile->times[profile->time_count].before, 0),
                                  "cuEventCreate", &error);
        profile->time_count += !status;
    }
    if (status)
        eitp__cuda_profile_stop(profile, &error);
    return !status;
}

static void eitp__add_profile_row(eitp__cuda_profile_row *sum, const eitp__cuda_profile_row *row) {
    sum->calls += row->calls;
    sum->launches += row->launches;
    sum->seconds += row->seconds;
    sum->flops += row->flops;
    sum->bytes += row->bytes;
}

EITP__PRIVATE void eitp__cuda_profile_add(eitp__cuda_profile *profile, const eitp__cuda_profile_row *unit) {
    size_t i = 0;
    while (i < profile->count && (profile->rows[i].dtype != unit->dtype || strcmp(profile->rows[i].name, unit->name)))
        i++;
    if (i == profile->count)
        profile->rows[profile->count++] = *unit;
    else
        eitp__add_profile_row(&profile->rows[i], unit);
}

/* ---- The table ---- */

/* The longest first. */
static int eitp__compare_profile_rows(const void *a, const void *b) {
    const eitp__cuda_profile_row *x = (const eitp__cuda_profile_row *)a, *y = (const eitp__cuda_profile_row *)b;
    const int order = strcmp(x->name, y->name);
    if (x->seconds < y->seconds || x->seconds > y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return order ? order : (int)x->dtype - (int)y->dtype;
}

static void eitp__log_profile_row(const eitp__cuda_profile *profile, const eitp__cuda_profile_row *row,
                                  const char *dtype, double all_seconds) {
    const double seconds = row->seconds > 0 ? row->seconds : HUGE_VAL; /* rates are 0 */
    eitp__log_line(profile->host, EITP_LOG_INFO, "| %s | %s | %llu | %llu | %.2f | %.1f | %.1f | %.0f |", row->name,
                   dtype, (unsigned long long)row->calls, (unsigned long long)row->launches, 1e3 * row->seconds,
                   all_seconds > 0 ? 100 * row->seconds / all_seconds : 0, row->flops / seconds / 1e12,
                   row->bytes / seconds / 1e9);
}

EITP__PRIVATE void eitp__cuda_profile_log(eitp__cuda_profile *profile) {
    eitp__cuda_profile_row all = EITP__ZERO;
    if (!profile->executions && profile->is_on && profile->left_out)
        eitp__log_line(profile->host, EITP_LOG_INFO,
                       "EITP_CUDA_PROFILE: no times, because no program was executed a second time");
    if (!profile->executions)
        return;
    qsort(profile->rows, profile->count, sizeof *profile->rows, eitp__compare_profile_rows);
    for (size_t i = 0; i < profile->count; i++)
        eitp__add_profile_row(&all, &profile->rows[i]);
    eitp__log_line(profile->host, EITP_LOG_INFO,
                   "times of GPU kernels in %llu executions of programs; the first of each program, %llu in all, is "
                   "left out:",
                   (unsigned long long)profile->executions, (unsigned long long)profile->left_out);
    eitp__log_line(profile->host, EITP_LOG_INFO, "| kernels | dtype | calls | launches | ms | %% | TFLOP/s | GB/s |");
    eitp__log_line(profile->host, EITP_LOG_INFO, "|---|---|--:|--:|--:|--:|--:|--:|");
    for (size_t i = 0; i < profile->count; i++)
        eitp__log_profile_row(profile, &profile->rows[i], eitp_dtype_name(profile->rows[i].dtype), all.seconds);
    snprintf(all.name, sizeof all.name, "all");
    eitp__log_profile_row(profile, &all, "", all.seconds);
}

#endif

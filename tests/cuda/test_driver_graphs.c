/* Capture and graphs of the emulated driver: which calls become nodes, what ends a capture, and how graphs are
   executed. */
#include "tests/cuda/use_driver.h"

/* Captures x = factor x + 1 on stream a and y = factor on stream b, joined, and then x = x + y. */
static CUresult capture_fork(const fixture *f, float factor, CUgraph *graph) {
    CUresult error = cu.cuStreamBeginCapture_v2(f->a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (error)
        return error;
    if (cu.cuEventRecord(f->event, f->a) || cu.cuStreamWaitEvent(f->b, f->event, 0) ||
        launch_step(f, f->a, f->x, factor, 1) || launch_step(f, f->b, f->y, 0, factor) ||
        cu.cuEventRecord(f->other_event, f->b) || cu.cuStreamWaitEvent(f->a, f->other_event, 0) ||
        launch_with(f->step, f->a, f->x, f->y, 1, 0))
        return CUDA_ERROR_UNKNOWN;
    return cu.cuStreamEndCapture(f->a, graph);
}

static CUresult instantiate_fork(const fixture *f, float factor, CUgraphExec *exec) {
    CUgraph graph = NULL;
    CUresult error = capture_fork(f, factor, &graph);
    if (!error)
        error = cu.cuGraphInstantiateWithFlags(exec, graph, 0);
    if (graph)
        cu.cuGraphDestroy(graph); /* the executable graph does not need it */
    return error;
}

/* ---- Graphs ---- */

static void a_graph_is_executed_again_and_again(void) {
    CUgraphNode nodes[8];
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    size_t count = 0;
    float expected = 0;
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(!capture_fork(&f, 2, &graph));
    CHECK(cu.emulated_cuda_launches() == 0);
    CHECK(!cu.cuGraphGetNodes(graph, NULL, &count) && count == 3);
    count = 8;
    CHECK(!cu.cuGraphGetNodes(graph, nodes, &count) && count == 3 && nodes[0] && nodes[2] && !nodes[3]);
    CHECK(!cu.cuGraphInstantiateWithFlags(&exec, graph, 0) && !cu.cuGraphDestroy(graph));
    CHECK(!cu.cuGraphUpload(exec, f.a));
    for (int i = 0; i < 5; i++) {
        CHECK(!cu.cuGraphLaunch(exec, i % 2 ? f.a : f.b)); /* launches of one graph are in order in any stream */
        expected = 2 * expected + 1 + 2;
    }
    CHECK(!cu.cuStreamSynchronize(f.a));
    CHECK(read_first(f.b, f.x) == expected);
    CHECK(cu.emulated_cuda_launches() == 15 && cu.emulated_cuda_graph_launches() == 5);
    CHECK(cu.emulated_cuda_live() == 9 && !cu.cuGraphExecDestroy(exec));
    CHECK(end(&f));
}

static void push_letter(void *user) {
    char **end_of_text = (char **)user;
    *(*end_of_text)++ = 'a';
}

static void push_other_letter(void *user) {
    char **end_of_text = (char **)user;
    *(*end_of_text)++ = 'b';
}

/* Independent nodes run in any order, interleaved with the work of other streams. */
static void independent_nodes_have_no_order(void) {
    int seen[3] = {0, 0, 0};
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 100; i++) {
        char text[4] = "", *end_of_text = text;
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(!cu.cuEventRecord(f.event, f.a) && !cu.cuStreamWaitEvent(f.b, f.event, 0));
        CHECK(!cu.cuLaunchHostFunc(f.a, push_letter, &end_of_text));
        CHECK(!cu.cuLaunchHostFunc(f.b, push_letter, &end_of_text));
        CHECK(!cu.cuEventRecord(f.event, f.b) && !cu.cuStreamWaitEvent(f.a, f.event, 0));
        CHECK(!cu.cuStreamEndCapture(f.a, &graph) && !cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        CHECK(!cu.cuGraphLaunch(exec, f.a) && !cu.cuLaunchHostFunc(f.b, push_other_letter, &end_of_text));
        CHECK(!cu.cuCtxSynchronize());
        if (strlen(text) == 3)
            seen[strchr(text, 'b') - text]++;
        CHECK(!cu.cuGraphExecDestroy(exec) && !cu.cuGraphDestroy(graph));
    }
    CHECK_THAT(seen[0] && seen[1] && seen[2] && seen[0] + seen[1] + seen[2] == 100, "%d %d %d", seen[0], seen[1],
               seen[2]);
    CHECK(end(&f));
}

static int fork_order; /* the stream whose branch ran first */

static void note_first(void *user) {
    if (!fork_order)
        fork_order = *(const char *)user;
}

static void branches_come_in_any_order(void) {
    static const char names[] = "ab";
    int seen[2] = {0, 0};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) && !cu.cuEventRecord(f.event, f.a) &&
          !cu.cuStreamWaitEvent(f.b, f.event, 0));
    CHECK(!cu.cuLaunchHostFunc(f.a, note_first, (void *)(uintptr_t)&names[0]) &&
          !cu.cuLaunchHostFunc(f.b, note_first, (void *)(uintptr_t)&names[1]));
    CHECK(!cu.cuEventRecord(f.event, f.b) && !cu.cuStreamWaitEvent(f.a, f.event, 0) &&
          !cu.cuStreamEndCapture(f.a, &graph) && !cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 50; i++) {
        fork_order = 0;
        CHECK(!cu.cuGraphLaunch(exec, f.a) && !cu.cuStreamSynchronize(f.a));
        seen[fork_order == 'b']++;
    }
    CHECK_THAT(seen[0] && seen[1], "%d %d", seen[0], seen[1]);
    CHECK(!cu.cuGraphExecDestroy(exec) && !cu.cuGraphDestroy(graph));
    CHECK(end(&f));
}

static void wait_a_while(void *user) {
    struct timespec while_ = {0, 2000000};
    ++*(int *)user;
    nanosleep(&while_, NULL);
}

/* Events recorded by a graph have the times of its last launch, in its order. */
static void graphs_record_events(void) {
    float milliseconds = -1;
    int waited = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(cu.cuEventRecordWithFlags(f.event, f.a, CU_EVENT_RECORD_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) &&
          !cu.cuEventRecordWithFlags(f.event, f.a, CU_EVENT_RECORD_EXTERNAL) &&
          !cu.cuLaunchHostFunc(f.a, wait_a_while, &waited) &&
          !cu.cuEventRecordWithFlags(f.other_event, f.a, CU_EVENT_RECORD_EXTERNAL));
    CHECK(!cu.cuStreamEndCapture(f.a, &graph) && !cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cu.cuEventElapsedTime(&milliseconds, f.event, f.other_event) == CUDA_ERROR_NOT_READY);
    for (int i = 1; i <= 3; i++) {
        CHECK(!cu.cuGraphLaunch(exec, f.a) && !cu.cuStreamSynchronize(f.a) && waited == i);
        CHECK_THAT(!cu.cuEventElapsedTime(&milliseconds, f.event, f.other_event) && milliseconds >= 2, "%g ms",
                   (double)milliseconds);
    }
    CHECK(!cu.cuGraphExecDestroy(exec) && !cu.cuGraphDestroy(graph));
    CHECK(end(&f));
}

/* Copies of pinned memory read it again at each launch. */
static void captured_copies_read_anew(void) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(!cu.cuMemcpyHtoDAsync_v2(f.x, f.pinned, SIZE, f.a) && !cu.cuMemsetD32Async(f.y, 0, COUNT, f.a) &&
          !launch_with(f.step, f.a, f.y, f.x, 1, 0) && !cu.cuMemcpyDtoHAsync_v2(f.pinned, f.y, SIZE, f.a));
    CHECK(!cu.cuStreamEndCapture(f.a, &graph) && !cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        f.pinned[0] = (float)i;
        CHECK(!cu.cuGraphLaunch(exec, f.a) && !cu.cuStreamSynchronize(f.a) && f.pinned[0] == (float)i);
    }
    CHECK(!cu.cuGraphExecDestroy(exec) && !cu.cuGraphDestroy(graph));
    CHECK(end(&f));
}

/* ---- What ends a capture ---- */

static int status_of(CUstream stream) {
    CUstreamCaptureStatus status = -1;
    return cu.cuStreamIsCapturing(stream, &status) ? -1 : status;
}

/* Makes a call that is not permitted, and then ends the capture. */
static void check_refused(const fixture *f, CUresult found, CUresult expected) {
    CUgraph graph = NULL;
    CHECK_THAT(found == expected, "%d instead of %d", (int)found, (int)expected);
    CHECK(status_of(f->a) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(launch_step(f, f->a, f->x, 1, 1) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cu.cuEventRecord(f->event, f->a) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cu.cuStreamEndCapture(f->a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !graph);
    CHECK(status_of(f->a) == CU_STREAM_CAPTURE_STATUS_NONE);
}

#define CHECK_REFUSED(mode, call, expected)                                                                            \
    do {                                                                                                               \
        CHECK(!cu.cuStreamBeginCapture_v2(f.a, mode));                                                                 \
        check_refused(&f, call, expected);                                                                             \
    } while (0)

static void calls_end_captures(void) {
    const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    float pageable[COUNT] = {0};
    CUdeviceptr memory = 0;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(!instantiate_fork(&f, 1, &exec));
    REQUIRE(!cu.cuModuleLoadData(&module, kernel_image) && !cu.cuModuleGetFunction(&function, module, "step"));
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, launch_with(function, f.a, f.x, 0, 1, 0), unsupported);
    CHECK(!launch_with(function, f.a, f.x, 0, 1, 0));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) &&
          !launch_with(function, f.a, f.x, 0, 1, 0) && !cu.cuStreamEndCapture(f.a, &graph) &&
          !cu.cuGraphDestroy(graph));
    CHECK(!cu.cuStreamSynchronize(f.a) && !cu.cuModuleUnload(module));
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuStreamSynchronize(f.a), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuStreamQuery(f.a), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuCtxSynchronize(), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuMemcpyHtoDAsync_v2(f.x, pageable, SIZE, f.a), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuMemcpyDtoHAsync_v2(pageable, f.x, SIZE, f.a), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_RELAXED, cu.cuGraphLaunch(exec, f.a), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_GLOBAL, cu.cuMemAlloc_v2(&memory, 4), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, cu.cuMemFree_v2(f.x), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, cu.cuModuleLoadData(&module, kernel_image), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_GLOBAL, cu.cuMemcpyHtoD_v2(f.x, pageable, 4), unsupported);
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_GLOBAL, cu.cuEventQuery(f.event), unsupported);
    CHECK(!cu.cuEventRecord(f.event, f.b));
    CHECK_REFUSED(CU_STREAM_CAPTURE_MODE_GLOBAL, cu.cuStreamWaitEvent(f.a, f.event, 0),
                  CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) && !cu.cuMemAlloc_v2(&memory, 4) &&
          !cu.cuMemFree_v2(memory) && !cu.cuStreamSynchronize(f.b) && !cu.cuStreamEndCapture(f.a, &graph) &&
          !cu.cuGraphDestroy(graph));
    CHECK(!cu.cuGraphExecDestroy(exec));
    CHECK(end(&f));
}

static void captures_end_where_they_began(void) {
    CUgraph graph = NULL;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(cu.cuStreamEndCapture(f.a, &graph) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(!cu.cuEventRecord(f.event, f.a) && !cu.cuStreamWaitEvent(f.b, f.event, 0));
    CHECK(status_of(f.b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(!launch_step(&f, f.b, f.y, 0, 1));
    CHECK(cu.cuStreamEndCapture(f.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && !graph);
    CHECK(status_of(f.b) == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(cu.cuEventSynchronize(f.event) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(cu.cuStreamWaitEvent(f.b, f.event, 0) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(!cu.cuEventRecord(f.event, f.a) && !cu.cuEventSynchronize(f.event));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_GLOBAL) && !cu.cuEventRecord(f.event, f.a) &&
          !cu.cuStreamWaitEvent(f.b, f.event, 0));
    CHECK(cu.cuStreamEndCapture(f.b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(cu.cuStreamEndCapture(f.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) &&
          !cu.cuStreamBeginCapture_v2(f.b, CU_STREAM_CAPTURE_MODE_RELAXED) && !cu.cuEventRecord(f.event, f.a));
    CHECK(cu.cuStreamWaitEvent(f.b, f.event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
    CHECK(cu.cuStreamEndCapture(f.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cu.cuStreamEndCapture(f.b, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED) && !cu.cuStreamDestroy_v2(f.a));
    CHECK(!cu.cuStreamCreate(&f.a, CU_STREAM_NON_BLOCKING));
    CHECK(end(&f));
}

/* A capture that was not ended is over when its context is released, and does not affect later contexts. */
static void captures_end_with_the_context(void) {
    fixture f;
    REQUIRE(begin(&f));
    CHECK(!cu.cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_GLOBAL) && !launch_step(&f, f.a, f.x, 1, 1));
    CHECK(!cu.cuDevicePrimaryCtxRelease_v2(0) && !cu.cuDevicePrimaryCtxRetain(&f.context, 0));
    CHECK(!cu.cuCtxSetCurrent(f.context) && !cu.cuCtxSynchronize());
    CHECK(end(&f));
}

/* ---- Other threads ---- */

static CUresult results[3];

static void *call_from_thread(void *user) {
    const fixture *f = (const fixture *)user;
    CUdeviceptr memory = 0;
    CUgraph graph = NULL;
    cu.cuCtxSetCurrent(f->context);
    results[0] = cu.cuStreamEndCapture(f->a, &graph);
    results[1] = launch_step(f, f->b, f->y, 0, 1);
    results[2] = cu.cuMemAlloc_v2(&memory, 4);
    if (!results[2])
        cu.cuMemFree_v2(memory);
    return NULL;
}

/* A capture in global mode restricts other threads too. */
static void captures_concern_threads(void) {
    const int modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL};
    fixture f;
    REQUIRE(begin(&f));
    for (int i = 0; i < 2; i++) {
        CUgraph graph = NULL;
        pthread_t thread;
        CUresult result;
        CHECK(!cu.cuStreamBeginCapture_v2(f.a, modes[i]));
        REQUIRE(!pthread_create(&thread, NULL, call_from_thread, &f));
        pthread_join(thread, NULL);
        CHECK(results[0] == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && !results[1]);
        CHECK(results[2] == (i ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
        result = cu.cuStreamEndCapture(f.a, &graph);
        CHECK(result == (i ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
        CHECK(!i == !graph && (!graph || !cu.cuGraphDestroy(graph)));
    }
    CHECK(end(&f));
}

/* ---- Broken rules ---- */

static void destroy_in_flight(fixture *f) {
    CUgraphExec exec = NULL;
    instantiate_fork(f, 1, &exec);
    cu.cuGraphLaunch(exec, f->a);
    cu.cuGraphExecDestroy(exec);
}

static void free_under_a_graph(fixture *f) {
    CUgraphExec exec = NULL;
    instantiate_fork(f, 1, &exec);
    cu.cuGraphLaunch(exec, f->a);
    cu.cuMemFree_v2(f->y);
}

static void launch_after_the_module(fixture *f) {
    CUgraphExec exec = NULL;
    instantiate_fork(f, 1, &exec);
    cu.cuModuleUnload(f->module);
    cu.cuGraphLaunch(exec, f->a);
    cu.cuStreamSynchronize(f->a);
}

static void launch_after_the_memory(fixture *f) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    cu.cuStreamBeginCapture_v2(f->a, CU_STREAM_CAPTURE_MODE_RELAXED);
    cu.cuMemcpyHtoDAsync_v2(f->x, f->pinned, SIZE, f->a);
    cu.cuStreamEndCapture(f->a, &graph);
    cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
    cu.cuMemFreeHost(f->pinned);
    cu.cuGraphLaunch(exec, f->a);
    cu.cuStreamSynchronize(f->a);
}

static void broken_rules_of_graphs(void) {
    CHECK_ENDS(destroy_in_flight, "an executable graph is destroyed that is in flight");
    CHECK_ENDS(free_under_a_graph, "memory is freed that queued operations use");
    CHECK_ENDS(launch_after_the_module, "executed after its module was unloaded");
    CHECK_ENDS(launch_after_the_memory, "a copy uses pinned memory that was released");
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_graph_is_executed_again_and_again),
        TEST(independent_nodes_have_no_order),
        TEST(branches_come_in_any_order),
        TEST(graphs_record_events),
        TEST(captured_copies_read_anew),
        TEST(calls_end_captures),
        TEST(captures_end_where_they_began),
        TEST(captures_end_with_the_context),
        TEST(captures_concern_threads),
        TEST(broken_rules_of_graphs),
    };
    open_driver();
    return RUN_TESTS(tests, argc, argv);
}

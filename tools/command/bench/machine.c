#include "bench/machine.h"

#include "files.h"
#include "plan/machine.h"

#include <unistd.h>

bench_machine bench_machine_read(void) {
    const eitp_host host = command_host();
    bench_machine machine;
    eitp_memory_info info;
    eitp_error ignored;
    memset(&machine, 0, sizeof machine);
    machine_processor_name(machine.processor, sizeof machine.processor);
    machine.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!eitp_memory_info_read(&host, &info, &ignored)) {
        machine.memory = (double)info.total;
        machine.available = (double)info.available;
    }
    return machine;
}

void bench_machine_json(text_buffer *t) {
    bench_machine machine = bench_machine_read();
    text_json_name(t, "machine");
    text_format(t, "{");
    text_json_member_string(t, "processor", machine.processor);
    text_json_member_integer(t, "processors", machine.processors);
    text_json_member_number(t, "memory_bytes", machine.memory);
    text_json_member_number(t, "available_bytes", machine.available);
    text_format(t, "}");
}

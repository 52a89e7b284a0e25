"""A collector for tests, and an endpoint that handlers post to: notes what it gets, held against OpenTelemetry's own schema.

    trace_receiver.py FILE [CHAIN KEY]

speaks TLS where it is given a certificate, prints its port on a line, then serves until its standard input ends. Each thing that
comes is a line of JSON in FILE: `request`, `span`, `hook`, or `problem` where something is not as the schema has it. The path before
`/v1/traces` picks the answer: `busy` (503 once, with Retry-After), `partial` (one span refused), `refuse` (400), `stall` (a head,
and nothing more).
"""

import json
import sys
import threading

import http_receiver
from google.protobuf import json_format, unknown_fields
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

lock = threading.Lock()
file = open(sys.argv[1], "a")
busy = 0


def note(**line):
    with lock:
        file.write(json.dumps(line) + "\n")
        file.flush()


def unknown(message):
    """Fields that the schema does not have, anywhere in the message."""
    found = [field.field_number for field in unknown_fields.UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if field.is_repeated else [value]:
            found += unknown(part)
    return found


def attributes(pairs):
    keys = [pair.key for pair in pairs]
    if len(keys) != len(set(keys)) or "" in keys:
        note(problem=f"attribute names: {keys}")
    values = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        if kind is None:
            note(problem=f"no value: {pair.key}")
        elif kind == "array_value":
            values[pair.key] = [getattr(value, value.WhichOneof("value")) for value in pair.value.array_value.values]
        else:
            values[pair.key] = getattr(pair.value, kind)
    return values


def check(span):
    for name, value, size in [("trace", span.trace_id, 16), ("span", span.span_id, 8)] + [
        place for link in span.links for place in [("link", link.trace_id, 16), ("link", link.span_id, 8)]
    ]:
        if len(value) != size or not any(value):
            note(problem=f"{name} id {value.hex()}")
    if len(span.parent_span_id) not in (0, 8):
        note(problem=f"parent id {span.parent_span_id.hex()}")
    if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
        note(problem=f"times {span.start_time_unix_nano} {span.end_time_unix_nano}")
    if not span.name or span.kind == 0:
        note(problem=f"name or kind of {span.name!r}")


def take(body):
    request = ExportTraceServiceRequest.FromString(body)
    if unknown(request):
        note(problem=f"unknown fields {unknown(request)}")
    # Also writes every text, which fails for what is not UTF-8.
    json_format.MessageToJson(request)
    count = 0
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            if not scope.scope.name or not scope.schema_url.startswith("https://opentelemetry.io/schemas/"):
                note(problem=f"scope {scope.scope} {scope.schema_url}")
            for span in scope.spans:
                count += 1
                check(span)
                note(
                    span={
                        "trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                        "state": span.trace_state, "flags": span.flags, "name": span.name, "kind": span.kind,
                        "start": span.start_time_unix_nano, "end": span.end_time_unix_nano,
                        "attributes": attributes(span.attributes),
                        "links": [
                            {"trace": link.trace_id.hex(), "id": link.span_id.hex(), "state": link.trace_state,
                             "flags": link.flags, "attributes": attributes(link.attributes)}
                            for link in span.links
                        ],
                        "events": [{"name": event.name, "attributes": attributes(event.attributes)} for event in span.events],
                        "dropped": [span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count],
                        "status": span.status.code, "message": span.status.message,
                        "resource": attributes(resource.resource.attributes),
                    }
                )
    return count


class Endpoint(http_receiver.Receiver):
    def do_POST(self):
        global busy
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not self.path.endswith("/v1/traces"):
            note(hook=headers)
            return self.answer(200)
        note(request=self.path, headers=headers, size=len(body))
        mode = self.path.removesuffix("/v1/traces").strip("/")
        if mode == "busy" and busy == 0:
            busy = 1
            return self.answer(503, b"", [("retry-after", "1")])
        if mode == "refuse":
            return self.answer(400)
        if mode == "stall":
            self.send_response(200)
            self.send_header("content-length", "9")
            self.end_headers()
            self.rfile.read(1)  # Until the client goes away.
            return
        try:
            if headers["content-type"] != "application/x-protobuf":
                note(problem=f"content-type {headers['content-type']}")
            count = take(body)
        except Exception as error:
            note(problem=repr(error))
            return self.answer(400)
        response = ExportTraceServiceResponse()
        if mode == "partial":
            response.partial_success.rejected_spans = 1
            response.partial_success.error_message = f"one of {count}"
        self.answer(200, response.SerializeToString(), [("content-type", "application/x-protobuf")])


http_receiver.serve(Endpoint, *sys.argv[2:])

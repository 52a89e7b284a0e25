import Vocabulary

extension Metrics {
    /// The content type of ``render()``.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// All metrics as Prometheus text, UTF-8.
    ///
    /// Copies received, settled and in flight are of one moment; the rest is read one after the other.
    package func render() -> [UInt8] {
        var writer = ExpositionWriter()
        let accounts = messages.snapshot()
        let process = ProcessFigures.now()
        for name in MetricName.allCases where !isAbsent(name) {
            writer.family(name)
            if let value = process.value(name) {
                writer.sample(name, [], ExpositionWriter.number(value))
            } else {
                render(name, accounts, into: &writer)
            }
        }
        return writer.bytes
    }

    /// Whether a family has no series: those of handlers if none is configured, and certificates if none was seen.
    private func isAbsent(_ name: MetricName) -> Bool {
        switch name {
        case .certificateEnd: certificates.all.isEmpty
        default: handlers.isEmpty && name.labels.contains("handler")
        }
    }

    private func render(
        _ name: MetricName,
        _ accounts: MessageAccounts.Snapshot,
        into writer: inout ExpositionWriter
    ) {
        switch name {
        case .connections: renderConnections(into: &writer)
        case .stanzas:
            for kind in CopyKind.allCases { writer.sample(name, [kind.text], String(accounts.received(kind))) }
            writer.closed(name, [], stanzas)
        case .messages: renderMessages(accounts, into: &writer)
        case .inFlight: writer.sample(name, [], String(accounts.inFlight))
        case .acks: writer.closed(name, [], acks)
        case .ackLatency: writer.histogram(name, [], ackLatency)
        case .commitDuration: writer.histogram(name, [], commitDuration)
        case .commitsWaiting: writer.sample(name, [], String(commitsWaitingForStandby.value))
        case .batchMessages: writer.histogram(name, [], batchMessages)
        case .databaseErrors: writer.closed(name, [], databaseErrors)
        case .reconnects: writer.closed(name, [], reconnects)
        case .replaysRunning: writer.sample(name, [], String(replaysRunning.value))
        case .transactionAge: writer.sample(name, [], ExpositionWriter.number(transactionAge.value))
        case .partitionsAhead: writer.sample(name, [], ExpositionWriter.number(partitionsAhead.value))
        case .retentionLastRun: writer.sample(name, [], ExpositionWriter.number(retentionLastRun.value))
        case .retentionHeld: writer.sample(name, [], ExpositionWriter.number(retentionHeld.value))
        case .diskFree: writer.sample(name, [], ExpositionWriter.number(diskFree.value))
        case .certificateEnd:
            for certificate in certificates.all {
                let seconds = Double(certificate.end.microseconds / 1_000_000)
                writer.sample(name, [certificate.kind.text, certificate.name], ExpositionWriter.number(seconds))
            }
        case .clockAhead: writer.sample(name, [], ExpositionWriter.number(clockAhead.value))
        case .deliveries, .deliveryDuration, .deadLetters, .oldestDelivery, .deliveriesWaiting, .circuit, .paused:
            for (index, label) in handlers.enumerated() {
                render(name, handler(index), label, into: &writer)
            }
        case .spans: writer.closed(name, [], spans)
        case .logLinesDropped: writer.sample(name, [], String(DescriptorLogOutput.standardError.dropped))
        case .buildInfo: writer.sample(name, [version], "1")
        // Rendered by the caller.
        case .processCPU, .processOpenFiles, .processMostFiles, .processVirtualMemory, .processMemory, .processStart,
            .processThreads:
            break
        }
    }

    private func renderConnections(into writer: inout ExpositionWriter) {
        for (index, sender) in senders.enumerated() {
            for state in ConnectionState.allCases {
                writer.sample(
                    .connections,
                    [sender, state.text],
                    String(connections(sender: index, state: state).value)
                )
            }
        }
    }

    private func renderMessages(_ accounts: MessageAccounts.Snapshot, into writer: inout ExpositionWriter) {
        for (index, category) in messages.categories.names.enumerated() {
            for outcome in MessageOutcome.allCases {
                let count = accounts.settled(category: index, outcome)
                writer.sample(.messages, [category, outcome.text], String(count))
            }
        }
    }

    private func render(
        _ name: MetricName,
        _ metrics: HandlerMetrics,
        _ label: String,
        into writer: inout ExpositionWriter
    ) {
        switch name {
        case .deliveries: writer.closed(name, [label], metrics.deliveries)
        case .deliveryDuration: writer.histogram(name, [label], metrics.duration)
        case .deadLetters: writer.sample(name, [label], String(metrics.deadLetters.value))
        case .oldestDelivery:
            writer.sample(name, [label], ExpositionWriter.number(metrics.oldestDeliveryAge.value))
        case .deliveriesWaiting: writer.sample(name, [label], String(metrics.waiting.value))
        case .paused: writer.sample(name, [label], String(metrics.paused.value))
        case .circuit:
            let now = metrics.circuit.value
            for state in CircuitState.allCases {
                writer.sample(name, [label, state.text], state.rawValue == now ? "1" : "0")
            }
        default: break
        }
    }
}

extension ExpositionWriter {
    /// Writes one sample for each value of a closed label, which is the family's last.
    fileprivate mutating func closed<Label>(
        _ name: MetricName,
        _ values: [String],
        _ family: CounterFamily<Label>
    ) {
        for label in Label.allCases {
            sample(name, values + [label.text], String(family[label].value))
        }
    }
}

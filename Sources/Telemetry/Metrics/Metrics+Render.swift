import Vocabulary

extension Metrics {
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
            render(name, accounts, process, into: &writer)
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
        _ process: ProcessFigures,
        into writer: inout ExpositionWriter
    ) {
        func each(_ write: (String, HandlerMetrics) -> Void) {
            for (index, label) in handlers.enumerated() { write(label, handler(index)) }
        }
        switch name {
        case .connections:
            for (index, sender) in senders.enumerated() {
                for state in ConnectionState.allCases {
                    writer.sample(name, [sender, state.rawValue], connections(sender: index, state: state).value)
                }
            }
        case .stanzas:
            for kind in IncomingMessage.Kind.allCases { writer.sample(name, [kind.rawValue], accounts.received(kind)) }
            writer.closed(name, [], stanzas)
        case .messages:
            for (index, category) in messages.categories.names.enumerated() {
                for outcome in StoreOutcome.allCases {
                    writer.sample(name, [category, outcome.rawValue], accounts.settled(category: index, outcome))
                }
            }
        case .inFlight: writer.sample(name, [], accounts.inFlight)
        case .acks: writer.closed(name, [], acks)
        case .ackLatency: writer.histogram(name, [], ackLatency)
        case .commitDuration: writer.histogram(name, [], commitDuration)
        case .commitsWaiting: writer.sample(name, [], commitsWaitingForStandby.value)
        case .batchMessages: writer.histogram(name, [], batchMessages)
        case .databaseErrors: writer.closed(name, [], databaseErrors)
        case .reconnects: writer.closed(name, [], reconnects)
        case .replaysRunning: writer.sample(name, [], replaysRunning.value)
        case .transactionAge: writer.sample(name, [], transactionAge.value)
        case .slotBytes: writer.sample(name, [], slotBytes.value)
        case .slotShare: writer.sample(name, [], slotShare.value)
        case .partitionsAhead: writer.sample(name, [], partitionsAhead.value)
        case .retentionLastRun: writer.sample(name, [], retentionLastRun.value)
        case .retentionHeld: writer.sample(name, [], retentionHeld.value)
        case .diskFree: writer.sample(name, [], diskFree.value)
        case .certificateEnd:
            for certificate in certificates.all {
                let seconds = Double(certificate.end.microseconds / 1_000_000)
                writer.sample(name, [certificate.kind.rawValue, certificate.name], seconds)
            }
        case .clockAhead: writer.sample(name, [], clockAhead.value)
        case .deliveries: each { writer.closed(name, [$0], $1.deliveries) }
        case .deliveryDuration: each { writer.histogram(name, [$0], $1.duration) }
        case .deadLetters: each { writer.sample(name, [$0], $1.deadLetters.value) }
        case .oldestDelivery: each { writer.sample(name, [$0], $1.oldestDeliveryAge.value) }
        case .deliveriesWaiting: each { writer.sample(name, [$0], $1.waiting.value) }
        case .paused: each { writer.sample(name, [$0], $1.paused.value) }
        case .circuit:
            each { label, metrics in
                let now = metrics.circuit.value
                for state in CircuitState.allCases {
                    writer.sample(name, [label, state.rawValue], state.index == now ? 1 : 0)
                }
            }
        case .spans: writer.closed(name, [], spans)
        case .logLinesDropped: writer.sample(name, [], DescriptorLogOutput.standardError.dropped)
        case .buildInfo: writer.sample(name, [version], 1)
        case .processCPU, .processOpenFiles, .processMostFiles, .processVirtualMemory, .processMemory, .processStart,
            .processThreads:
            writer.sample(name, [], process[name])
        }
    }
}

package import UpstreamKit
package import Vocabulary

/// A claim on a delivery: nobody else may run it until the deadline.
package struct Lease: Sendable, Equatable {
    /// The fencing token: grows with each claim, and settling the delivery needs the current one.
    package var token: Int64
    /// Its end by this machine's clock, counted from before the claim was sent: never later than the database's.
    @FixedInstant package var deadline: ContinuousClock.Instant
    /// The block that holds the delivery; nil if it has its own row.
    package var block: Int64?

    package init(token: Int64, deadline: ContinuousClock.Instant, block: Int64? = nil) {
        self.token = token
        self.deadline = deadline
        self.block = block
    }
}

/// One message for one handler, held by this worker under a lease.
package struct Delivery: Sendable {
    /// The message; boxed, as a delivery is passed on several times.
    package enum Content: Sendable {
        /// The copy just stored here, made an ``UpstreamKit/UpstreamMessage`` when its turn comes.
        case received(ReceivedMessage)
        /// The message from the table.
        indirect case stored(UpstreamMessage)
        /// The message no longer exists: its day was dropped, or its device erased.
        case missing

        /// The estimated memory in bytes.
        package var size: Int {
            switch self {
            case .received(let box): box.message.bytes.count + 512
            case .stored(let message): (message.data?.count ?? 0) + (message.extra?.count ?? 0) + 1024
            case .missing: 0
            }
        }
    }

    package var content: Content
    package var messageKey: Digest128
    /// The attempts counted so far.
    package var attempts: Int
    /// The number of consecutive workers that died while they held it.
    package var crashes: Int
    /// Whether several workers died while they held it, so that it may be the cause.
    var isSuspect = false
    /// Whether a call of several messages failed with it, so that it is given alone.
    var isAlone = false
    /// The replay that queued it; nil for a first delivery.
    package var replayID: String?
    /// Whether a live delivery of its device waits for it, so that it goes as if it were live.
    package var isUrgent = false
    package var lease: Lease

    package init(
        content: Content,
        messageKey: Digest128,
        attempts: Int = 0,
        crashes: Int = 0,
        replayID: String? = nil,
        lease: Lease
    ) {
        (self.content, self.messageKey, self.attempts, self.crashes) = (content, messageKey, attempts, crashes)
        (self.replayID, self.lease) = (replayID, lease)
    }

    package var isUntried: Bool { attempts == 0 }

    /// Whether live deliveries go before it.
    package var givesWay: Bool { replayID != nil && !isUrgent }

    /// Whether it may be given with others: what has failed before would cost them their call again.
    var isSociable: Bool { isUntried && !isAlone }
}

/// A copy that is read in place.
package final class ReceivedMessage: Sendable {
    package let message: IncomingMessage

    package init(_ message: IncomingMessage) { self.message = message }
}

/// The result for a delivery whose attempt has ended.
package struct Settlement: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case done
        /// Counted as an attempt, and due again after the delay.
        case retry(after: Duration, HandlerFailure)
        /// Moved to `dead_letters`; `isCounted` if an attempt was made.
        case dead(HandlerFailure, isCounted: Bool)
        /// Released without counting an attempt, and due again after the delay; `noting` the failure, if any.
        case release(after: Duration, noting: HandlerFailure? = nil)
    }

    package var messageKey: Digest128
    /// The token of the lease that it ran under.
    package var token: Int64
    package var outcome: Outcome
    /// The block that held the delivery; nil if it had its own row.
    package var block: Int64?
    /// The history's record of the attempt; nil without an attempt, or without history.
    package var attempt: AttemptRecord?

    package init(messageKey: Digest128, token: Int64, outcome: Outcome, block: Int64? = nil) {
        (self.messageKey, self.token, self.outcome, self.block) = (messageKey, token, outcome, block)
    }
}

extension Delivery {
    package func settled(_ outcome: Settlement.Outcome) -> Settlement {
        Settlement(messageKey: messageKey, token: lease.token, outcome: outcome, block: lease.block)
    }

    var reference: LeaseReference { LeaseReference(messageKey: messageKey, token: lease.token) }

    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 if the message is gone.
    var receivedAt: Int64 {
        switch content {
        case .received(let box): box.message.receivedAt
        case .stored(let message): message.receivedAtMicroseconds
        case .missing: 0
        }
    }
}

extension UpstreamMessage {
    /// The message in a stored copy; nil for one that belongs in quarantine.
    package init?(_ copy: IncomingMessage, senderID: String) {
        func text(_ span: ByteSpan?) -> String? { span.map { copy.bytes.text(of: $0) } }
        func bytes(_ span: ByteSpan?) -> [UInt8]? {
            span.map { span in copy.bytes.withUnsafeBufferPointer { Array($0[span.range]) } }
        }
        guard copy.quarantine == nil, let id = text(copy.messageID), let token = text(copy.registrationToken),
            let category = text(copy.category)
        else { return nil }
        self.init(
            messageKey: MessageKey(copy.messageKey),
            messageID: id,
            senderID: senderID,
            category: category,
            registrationToken: RegistrationToken(token),
            deviceKey: DeviceKey(copy.deviceKey),
            data: copy.dataForm == .absent ? nil : bytes(copy.data),
            extra: bytes(copy.extra),
            messageType: text(copy.messageType),
            receivedAtMicroseconds: copy.receivedAt
        )
    }
}

extension MessageOutline {
    /// The outline of a delivery's message; nil if it is gone, or belongs in quarantine.
    init?(_ delivery: Delivery, attempt: Int) {
        switch delivery.content {
        case .received(let box):
            let copy = box.message
            guard copy.quarantine == nil, let category = copy.category else { return nil }
            self.init(
                messageKey: copy.messageKey,
                deviceKey: copy.deviceKey,
                category: copy.bytes.text(of: category),
                dataCount: copy.dataForm == .absent ? 0 : Int(copy.data?.count ?? 0),
                attempt: attempt
            )
        case .stored(let message): self.init(message, attempt: attempt)
        case .missing: return nil
        }
    }
}

extension MessageBytes {
    fileprivate func text(of span: ByteSpan) -> String {
        withUnsafeBufferPointer { String(decoding: UnsafeBufferPointer(rebasing: $0[span.range]), as: UTF8.self) }
    }
}
